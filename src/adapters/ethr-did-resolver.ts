import type { JsonRpcPayload, JsonRpcResult } from 'ethers'
import { createLazy } from '../lazy.js'
import type { EthrNetwork } from '../ports.js'
import { isObject } from '../protocol/json.js'
import type { LoadableDidResolver } from './cached-issuer-keys.js'
import { readBounded, separateUser } from './read-bounded.js'

/** The longest answer of an RPC node that is read, unpacked. */
const MAX_ANSWER_BYTES = 512 * 1024

/** A resolver with open connections. */
export interface ClosableDidResolver extends LoadableDidResolver {
  /** Ends every resolution under way, and every one to come. */
  close(): void
}

/** Sends a request to the node of one network. */
type AskNode = (payload: JsonRpcPayload | JsonRpcPayload[]) => Promise<JsonRpcResult[]>

/**
 * Resolves did:ethr through the registry contract of its networks. Each resolution has connections of its own, which
 * end with it: a slow node, or a DID with a long history, leaves nothing running. Most services never load ethers.
 */
export function createEthrDidResolver(ethrNetworks: readonly EthrNetwork[], registry: string): ClosableDidResolver {
  const running = new Set<AbortController>()
  const askedChainIds = new Map<string, number>()
  let isClosed = false
  const load = createLazy(() => Promise.all([import('did-resolver'), import('ethr-did-resolver'), import('ethers')]))

  const fetchChainId = async ({ name, chainId }: EthrNetwork, ask: AskNode): Promise<number> => {
    const known = chainId ?? askedChainIds.get(name)
    if (known !== undefined) return known
    const [answer] = await ask({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] })
    const told: unknown = answer?.result
    const number = typeof told === 'string' && told !== '' ? Number(told) : Number.NaN
    if (!Number.isSafeInteger(number)) throw new Error('the RPC node told no chain id')
    askedChainIds.set(name, number)
    return number
  }

  const resolveUntil = async (did: string, signal: AbortSignal): Promise<unknown> => {
    const [{ Resolver }, { getResolver }, ethers] = await load()
    const failures: unknown[] = []
    const networks = await Promise.all(
      ethrNetworks.map(async (ethrNetwork) => {
        const { name, rpcUrl } = ethrNetwork
        const ask = createNodeClient(rpcUrl, signal)
        const network = ethers.Network.from(await fetchChainId(ethrNetwork, ask))
        // A static network is never probed: the probe of ethers retries for ever, and writes to the console.
        const provider = new ethers.JsonRpcProvider(rpcUrl, network, { staticNetwork: network, batchMaxCount: 1 })
        // The transport of ethers cannot be called off, retries by timers, and shows the URL with its key in errors.
        provider._send = async (payload) => {
          try {
            return await ask(payload)
          } catch (error) {
            failures.push(error)
            throw error
          }
        }
        return { name, chainId: network.chainId, registry, provider }
      })
    )
    const names = networks.flatMap(({ name, chainId }) => [name, `0x${chainId.toString(16)}`])
    // The network is the part between method and address. If it is absent, ethr-did-resolver uses `mainnet`.
    const named = did.split(':').slice(2, -1).join(':') || 'mainnet'
    if (!names.includes(named)) return createUnresolvedError('unknownNetwork')
    try {
      // Two module formats of one package: the same class to JavaScript, two to the type checker.
      const resolver = new Resolver(getResolver({ networks } as unknown as Parameters<typeof getResolver>[0]) as never)
      const result = await resolver.resolve(did)
      if (result.didDocument === null && failures.length > 0) throw failures[0]
      return result
    } finally {
      for (const { provider } of networks) provider.destroy()
    }
  }

  return {
    load,
    async resolve(did, { signal } = {}) {
      if (!did.startsWith('did:ethr:')) return createUnresolvedError('unsupportedDidMethod')
      if (isClosed) throw new Error('the resolver is closed')
      const stop = new AbortController()
      running.add(stop)
      try {
        signal?.throwIfAborted()
        return await resolveUntil(did, AbortSignal.any([stop.signal, ...(signal ? [signal] : [])]))
      } finally {
        running.delete(stop)
        stop.abort()
      }
    },
    close() {
      isClosed = true
      for (const stop of running) stop.abort(new Error('the resolver was closed'))
    }
  }
}

function createUnresolvedError(error: string): unknown {
  return { didResolutionMetadata: { error }, didDocumentMetadata: {}, didDocument: null }
}

/** Sends JSON-RPC requests to a node. The errors do not show the URL: it may contain a key. */
function createNodeClient(rpcUrl: string, signal: AbortSignal): AskNode {
  const { url, headers: user } = separateUser(rpcUrl)
  const headers = { 'Content-Type': 'application/json', ...user }
  return async (payload) => {
    let answer: unknown
    try {
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(payload), signal })
      if (!response.ok) {
        await response.body?.cancel()
        throw new Error(`status ${response.status}`)
      }
      const tooLong = (): Error => new Error('more than 512 KiB')
      answer = JSON.parse((await readBounded(response.body, MAX_ANSWER_BYTES, tooLong)).toString())
    } catch (error) {
      throw new Error(`the RPC node gave no answer: ${describeNodeError(signal.aborted ? signal.reason : error)}`)
    }
    const answers: unknown[] = Array.isArray(answer) ? answer : [answer]
    if (!answers.every(isObject)) throw new Error('the RPC node gave no JSON-RPC answer')
    return answers as unknown as JsonRpcResult[]
  }
}

/** Describes an error of a node: of `fetch` by its cause, of a JSON parser not by its message, which says nothing. */
function describeNodeError(error: unknown): string {
  if (error instanceof SyntaxError || !isObject(error)) return 'no JSON'
  const { code, message } = isObject(error.cause) ? error.cause : error
  return String(code ?? message)
}
