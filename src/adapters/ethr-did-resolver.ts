import type { JsonRpcPayload, JsonRpcResult } from 'ethers'
import { createLazy } from '../lazy.js'
import type { EthrNetwork } from '../ports.js'
import { isObject } from '../protocol/json.js'
import type { LoadableDidResolver } from './cached-issuer-keys.js'
import { readBounded, separateUser } from './read-bounded.js'

/** Maximum length of an RPC node's answer, in bytes after decompression. */
const MAX_ANSWER_BYTES = 512 * 1024

/** A resolver with open connections. */
export interface ClosableDidResolver extends LoadableDidResolver {
  /** Ends all resolutions in flight, and makes further ones fail. */
  close(): void
}

/** Sends a request to the node of one network. */
type AskNode = (payload: JsonRpcPayload | JsonRpcPayload[]) => Promise<JsonRpcResult[]>

/**
 * Creates a resolver of did:ethr through the registry contracts of networks. Each resolution has its own providers and
 * requests, which end with it, so that a slow node or a DID with a long history leaves nothing running. ethers is
 * loaded on first use, because most services never need it.
 */
export function createEthrDidResolver(ethrNetworks: readonly EthrNetwork[], registry: string): ClosableDidResolver {
  const running = new Set<AbortController>()
  const fetchedChainIds = new Map<string, number>()
  let isClosed = false
  const load = createLazy(() => Promise.all([import('did-resolver'), import('ethr-did-resolver'), import('ethers')]))

  const fetchChainId = async ({ name, chainId }: EthrNetwork, ask: AskNode): Promise<number> => {
    const knownId = chainId ?? fetchedChainIds.get(name)
    if (knownId !== undefined) return knownId
    const [answer] = await ask({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] })
    const result: unknown = answer?.result
    const fetchedId = typeof result === 'string' && result !== '' ? Number(result) : Number.NaN
    if (!Number.isSafeInteger(fetchedId)) throw new Error('the RPC node returned no chain id')
    fetchedChainIds.set(name, fetchedId)
    return fetchedId
  }

  const resolveUntil = async (did: string, signal: AbortSignal): Promise<unknown> => {
    const [{ Resolver }, { getResolver }, ethers] = await load()
    const failures: unknown[] = []
    const networks = await Promise.all(
      ethrNetworks.map(async (ethrNetwork) => {
        const { name, rpcUrl } = ethrNetwork
        const ask = createNodeClient(rpcUrl, signal)
        const network = ethers.Network.from(await fetchChainId(ethrNetwork, ask))
        // A static network needs no detection, which ethers would retry forever with messages on the console.
        const provider = new ethers.JsonRpcProvider(rpcUrl, network, { staticNetwork: network, batchMaxCount: 1 })
        // The transport of ethers cannot be aborted, retries by timers, and shows the URL with its key in errors.
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
    const didNetwork = did.split(':').slice(2, -1).join(':') || 'mainnet'
    if (!names.includes(didNetwork)) return createUnresolvedError('unknownNetwork')
    try {
      // The package's two module formats declare the same class twice; only the type checker distinguishes them.
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

/** Creates a client that sends JSON-RPC requests to a node. Its errors do not show the URL, which may contain a key. */
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
      throw new Error(`the call to the RPC node failed: ${describeNodeError(signal.aborted ? signal.reason : error)}`)
    }
    const answers: unknown[] = Array.isArray(answer) ? answer : [answer]
    if (!answers.every(isObject)) throw new Error('the RPC node did not answer in JSON-RPC')
    return answers as unknown as JsonRpcResult[]
  }
}

/** Describes an error of a node without its URL: an error of `fetch` by its cause, invalid JSON by fixed words. */
function describeNodeError(error: unknown): string {
  if (error instanceof SyntaxError || !isObject(error)) return 'the answer is not JSON'
  const { code, message } = isObject(error.cause) ? error.cause : error
  return String(code ?? message)
}
