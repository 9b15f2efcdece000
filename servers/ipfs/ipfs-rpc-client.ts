import { createLazy, readBounded, separateUser } from 'express-did-auth/server-kit'
import type { Cid, IpfsClient } from 'ipfs-http-client'
import type { Logger } from 'pino'
import { getErrorCode } from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'
import { ServerError, type ServerErrorCode } from '../http/server-error.js'
import { cidOf, LEAF_BYTES, MAX_LINKS } from '../content/unixfs-blocks.js'
import { IpfsCall } from './ipfs-call.js'
import type { IpfsNode } from './ipfs-node.js'

const { ipfsCall: deadlineMilliseconds, ipfsList: listMilliseconds } = limitMilliseconds
const DEADLINES = { deadlineMilliseconds, listMilliseconds }
/** Maximum bytes of a short response with its headers. Its body is one line or an error. */
const SHORT_RESPONSE_BYTES = 65_536
/** Maximum bytes of the response for each listed pin. */
const PIN_BYTES = 512
/** Maximum number of listed pins. This many pins need about 500 MB of memory. */
const MAX_PINS = 4_000_000
/**
 * Maximum factor by which chunked transfer encoding lengthens a body. A chunk of one byte takes six bytes (RFC 9112,
 * section 7.1). The rest is for sizes with leading zeros, which a node may send.
 */
const CHUNKED_EXPANSION = 8

/** Options that make every node split content in the same way, so that the cid is the same. */
const ADD_OPTIONS = {
  cidVersion: 1,
  rawLeaves: true,
  chunker: `size-${LEAF_BYTES}`,
  // Profiles of Kubo build nodes of 1,024 links, and so another cid above 174 leaves (43.5 MiB).
  maxFileLinks: MAX_LINKS,
  hashAlg: 'sha2-256',
  pin: true,
  wrapWithDirectory: false
}

/** IPFS node that is used through its RPC API. */
export interface IpfsHttpNode extends IpfsNode {
  /** Ends all calls with ERR_IPFS_UNAVAILABLE. */
  close(): void
}

/**
 * Creates a client for the RPC API of a node (Kubo, js-ipfs). It uses ipfs-http-client, which the first call loads.
 *
 * A call ends after `deadlineMilliseconds`. When pins are listed, each pin restarts this deadline, but the whole call
 * ends after `listMilliseconds`. Response sizes are limited. Redirects are not followed.
 *
 * @param url - its path, if it has one, replaces `/api/v0`. User and password are sent in a header, and never appear in
 *   errors
 */
export function createIpfsHttpNode(url: string, deadlines: Partial<typeof DEADLINES> = {}): IpfsHttpNode {
  const { deadlineMilliseconds, listMilliseconds } = { ...DEADLINES, ...deadlines }
  const { url: address, headers } = separateUser(url)
  const endpoint = { url: address.replace(/\/+$/, ''), headers: { 'Accept-Encoding': 'identity', ...headers } }
  const loadClient = createLazy(async () => (await import('./http-client.js')).create(endpoint))
  const calls = new Set<IpfsCall>()
  let isClosed = false

  async function runCall<T>(
    maxResponseBytes: number,
    work: (client: IpfsClient, call: IpfsCall) => Promise<T>
  ): Promise<T> {
    const client = await loadClient()
    if (isClosed) throw new ServerError('ERR_IPFS_UNAVAILABLE')
    const call = new IpfsCall(maxResponseBytes, deadlineMilliseconds)
    calls.add(call)
    try {
      return await call.run(() => work(client, call))
    } catch (error) {
      throw error instanceof ServerError ? error : new ServerError(toErrorCode(error), { cause: findReason(error) })
    } finally {
      calls.delete(call)
    }
  }

  return {
    add: (cid, bytes) =>
      runCall(SHORT_RESPONSE_BYTES, async (client, { signal }) => {
        const added = await client.add(bytes, { ...ADD_OPTIONS, signal })
        assertSame(added?.cid, cid)
      }),
    unpin: (cid) =>
      runCall(SHORT_RESPONSE_BYTES, async (client, { signal }) => {
        try {
          assertSame(await client.pin.rm(cid, { signal }), cid)
        } catch (error) {
          if (!isNotPinned(error)) throw error
        }
      }),
    read: (cid, maxBytes) =>
      runCall(maxBytes * CHUNKED_EXPANSION + SHORT_RESPONSE_BYTES, async (client, { signal }) => {
        const tooLong = (): Error => new ServerError('ERR_IPFS_BAD_RESPONSE')
        const bytes = await readBounded(client.cat(cid, { signal }), maxBytes, tooLong)
        assertSame(cidOf(bytes), cid)
        return bytes
      }),
    listPins: () =>
      runCall(SHORT_RESPONSE_BYTES, async (client, call) => {
        call.endAfter(listMilliseconds)
        const pins = new Set<string>()
        let count = 0
        for await (const { cid } of client.pin.ls({ type: 'recursive', signal: call.signal })) {
          pins.add(String(cid))
          count += 1
          if (count > MAX_PINS) throw new ServerError('ERR_IPFS_BAD_RESPONSE')
          // The limit grows with each received pin. A high limit from the start would allow an endless line, which the
          // client would buffer.
          call.maxBytes += PIN_BYTES
          call.restartDeadline()
        }
        return pins
      }),
    ping: () =>
      runCall(SHORT_RESPONSE_BYTES, async (client, { signal }) => {
        const { version } = await client.version({ signal })
        if (typeof version !== 'string') throw new ServerError('ERR_IPFS_BAD_RESPONSE')
      }),
    close() {
      isClosed = true
      for (const call of calls) call.end('ERR_IPFS_UNAVAILABLE')
    }
  }
}

function assertSame(returned: Cid | undefined, cid: string): void {
  if (returned === undefined || String(returned) !== cid) throw new ServerError('ERR_IPFS_BAD_RESPONSE')
}

/** Whether an error of js-ipfs, Kubo or the proxy of IPFS Cluster means that the pin to remove does not exist. */
function isNotPinned(error: unknown): boolean {
  return (
    readStatus(error) === 500 &&
    /not pinned|pinned indirectly|not part of the pinset/.test(String(readErrorField(error, 'message')))
  )
}

/**
 * Converts the error of a request to a code that describes the node.
 *
 * - ERR_IPFS_UNAVAILABLE: a retry makes sense. There is no connection, it broke, `fetch` blocks the port, or the status
 *   is 5xx or 429. A proxy answers 5xx for a node that is down, and a node answers 500 if its disk is full.
 * - ERR_IPFS_TIMEOUT: the node itself ran into a timeout.
 * - ERR_IPFS_BAD_RESPONSE: any other error, such as status 4xx, or a response that is not HTTP or not JSON. The server
 *   is not an IPFS node, or it denies access.
 */
function toErrorCode(error: unknown): ServerErrorCode {
  const status = readStatus(error)
  if (readErrorField(error, 'name') === 'TimeoutError') return 'ERR_IPFS_TIMEOUT'
  if (status !== undefined) return status >= 500 || status === 429 ? 'ERR_IPFS_UNAVAILABLE' : 'ERR_IPFS_BAD_RESPONSE'
  return isConnectionError(findReason(error)) ? 'ERR_IPFS_UNAVAILABLE' : 'ERR_IPFS_BAD_RESPONSE'
}

/** Returns the cause of an error, where `fetch` puts the reason; without a cause, the error itself. */
function findReason(error: unknown): unknown {
  return readErrorField(error, 'cause') ?? error
}

function readStatus(error: unknown): number | undefined {
  const status = readErrorField(readErrorField(error, 'response'), 'status')
  return typeof status === 'number' ? status : undefined
}

/** Reads a field of an error without `instanceof`, because errors may be of another realm. */
function readErrorField(value: unknown, name: 'cause' | 'message' | 'name' | 'response' | 'status'): unknown {
  return typeof value === 'object' && value !== null
    ? (value as Partial<Record<typeof name, unknown>>)[name]
    : undefined
}

/** Whether the connection failed (operating system, DNS or TLS). False if a response arrived that is not HTTP. */
function isConnectionError(reason: unknown): boolean {
  // The error for a port that `fetch` blocks, such as 6000, has no code.
  if (readErrorField(reason, 'message') === 'bad port') return true
  const code = getErrorCode(reason)
  // Codes of Node's HTTP parser begin with HPE_, and codes of undici, which implements `fetch`, with UND_ERR_.
  if (code === undefined || code.startsWith('HPE_')) return false
  if (code.startsWith('UND_ERR_')) return ['UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT'].includes(code)
  return true
}

/** Logs a hint if an IPFS node answers on Kubo's default port. It waits at most 1 s and never rejects. */
export async function logLocalNodeHint(log: Logger, url = 'http://127.0.0.1:5001'): Promise<void> {
  try {
    const options = { method: 'POST', redirect: 'error', signal: AbortSignal.timeout(1_000) } as const
    const { status, body } = await fetch(`${url}/api/v0/version`, options)
    await body?.cancel()
    const sentence = `found an IPFS node at ${url}. Set IPFS_API_URL=${url} to store content there as well.`
    if (status === 200) log.info({ event: 'ipfs-found', url }, sentence)
  } catch {
    // Most machines have no IPFS node.
  }
}
