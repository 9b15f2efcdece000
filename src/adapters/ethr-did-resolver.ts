import type { FetchRequest } from 'ethers'
import type { DidResolver, EthrNetwork } from '../ports.js'

const RPC_MILLISECONDS = 3_000

/** A resolver that holds connections. */
export interface ClosableDidResolver extends DidResolver {
  close(): void
}

/**
 * Resolves did:ethr through the registry contract of its networks.
 *
 * ethers and ethr-did-resolver are loaded with the first resolution: most services never need one.
 */
export function ethrDidResolver(ethrNetworks: readonly EthrNetwork[], registry: string): ClosableDidResolver {
  const providers: { destroy(): void }[] = []
  let loading: Promise<DidResolver> | undefined

  const load = async (): Promise<DidResolver> => {
    const [{ Resolver }, { getResolver }, ethers] = await Promise.all([
      import('did-resolver'),
      import('ethr-did-resolver'),
      import('ethers')
    ])
    const networks = await Promise.all(
      ethrNetworks.map(async ({ name, rpcUrl, chainId }) => {
        const request = new ethers.FetchRequest(rpcUrl)
        // Its own default is 300 s.
        request.timeout = RPC_MILLISECONDS
        const network = ethers.Network.from(chainId ?? (await askChainId(request.clone())))
        // A network that is given is never probed: the probe of ethers retries for ever, and writes to the console.
        const provider = new ethers.JsonRpcProvider(request, network, { staticNetwork: network, batchMaxCount: 1 })
        providers.push(provider)
        return { name, chainId: network.chainId, registry, provider }
      })
    )
    // Two module formats of one package: the same class to JavaScript, two to the type checker.
    return new Resolver(getResolver({ networks } as unknown as Parameters<typeof getResolver>[0]) as never)
  }

  return {
    async resolve(did) {
      loading ??= load().catch((error: unknown) => {
        loading = undefined
        throw error
      })
      return (await loading).resolve(did)
    },
    close() {
      for (const provider of providers) provider.destroy()
    }
  }
}

async function askChainId(request: FetchRequest): Promise<number> {
  request.body = { jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] }
  const response = await request.send()
  response.assertOk()
  const { result } = response.bodyJson as { result?: unknown }
  const chainId = Number(result)
  if (typeof result !== 'string' || !Number.isSafeInteger(chainId)) throw new Error('the RPC node told no chain id')
  return chainId
}
