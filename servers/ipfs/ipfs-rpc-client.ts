import { createLazy, readBounded, separateUser } from 'express-did-auth/server-kit'
import type { Logger } from 'pino'
import { getErrorCode } from '../config/startup-error.js'
import { ServerError, type ServerErrorCode } from '../http/server-error.js'
import { cidOf } from '../storage/unixfs-blocks.js'
import { IpfsCall } from './ipfs-call.js'
import type { IpfsNode } from './ipfs-node.js'

const DEADLINES = { deadlineMilliseconds: 10_000, listMilliseconds: 300_000 }
/** A head, and an answer of one line or an error. */
const SHORT_ANSWER_BYTES = 65_536
/** Bytes around one pin in a list, and how many pins there may be: about 500 MB of memory. */
const PIN_BYTES = 512
const MAX_PINS = 4_000_000
/** The encoding of an answer in chunks: at worst seven bytes around each one. */
const CHUNKED = 8

/** Options with which every node splits content in the same way and computes the same cid. */
const ADD_OPTIONS = {
  cidVersion: 1,
  rawLeaves: true,
  chunker: 'size-262144',
  hashAlg: 'sha2-256',
  pin: true,
  wrapWithDirectory: false
}

/** A cid as the client answers it. */
type Cid = { toString(): string }

type CallOptions = { signal: AbortSignal }

/** The used part of ipfs-http-client, whose own types cannot be read under NodeNext. Its answers are unvalidated. */
interface IpfsClient {
  add(bytes: Uint8Array, options: CallOptions & Readonly<Record<string, unknown>>): Promise<{ cid: Cid } | undefined>
  cat(cid: string, options: CallOptions): AsyncIterable<Uint8Array>
  pin: {
    rm(cid: string, options: CallOptions): Promise<Cid | undefined>
    ls(options: CallOptions & { type: 'recursive' }): AsyncIterable<{ cid: Cid }>
  }
  version(options: CallOptions): Promise<{ version?: unknown }>
}

type MakeClient = (endpoint: { url: string; headers: Record<string, string> }) => IpfsClient

/** A node behind its RPC API. */
export interface IpfsHttpNode extends IpfsNode {
  /** Ends all calls with ERR_IPFS_UNAVAILABLE. */
  close(): void
}

/**
 * The node at a URL of its RPC API (Kubo, js-ipfs), through ipfs-http-client, which is loaded with the first call.
 *
 * Calls end after `deadlineMilliseconds`; a list of pins after so long without one more, and after `listMilliseconds`.
 * Answers are bounded: 64 KiB, the content that is read, or four million pins. Redirects are not followed.
 *
 * @param url - its path, if any, replaces `/api/v0`; its user and password are sent in a header, and are in no error
 */
export function createIpfsHttpNode(url: string, deadlines: Partial<typeof DEADLINES> = {}): IpfsHttpNode {
  const { deadlineMilliseconds, listMilliseconds } = { ...DEADLINES, ...deadlines }
  const { url: address, headers } = separateUser(url)
  const endpoint = { url: address.replace(/\/+$/, ''), headers: { 'Accept-Encoding': 'identity', ...headers } }
  const loadClient = createLazy(async () => ((await import('./http-client.js')).create as MakeClient)(endpoint))
  const calls = new Set<IpfsCall>()
  let isClosed = false

  async function ask<T>(maxAnswerBytes: number, work: (client: IpfsClient, call: IpfsCall) => Promise<T>): Promise<T> {
    const client = await loadClient()
    if (isClosed) throw new ServerError('ERR_IPFS_UNAVAILABLE')
    const call = new IpfsCall(maxAnswerBytes, deadlineMilliseconds)
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
      ask(SHORT_ANSWER_BYTES, async (client, { signal }) => {
        const added = await client.add(bytes, { ...ADD_OPTIONS, signal })
        assertSame(added?.cid, cid)
      }),
    unpin: (cid) =>
      ask(SHORT_ANSWER_BYTES, async (client, { signal }) => {
        try {
          assertSame(await client.pin.rm(cid, { signal }), cid)
        } catch (error) {
          if (!isNotPinned(error)) throw error
        }
      }),
    read: (cid, maxBytes) =>
      ask(maxBytes * CHUNKED + SHORT_ANSWER_BYTES, async (client, { signal }) => {
        const tooLong = (): Error => new ServerError('ERR_IPFS_BAD_RESPONSE')
        const bytes = await readBounded(client.cat(cid, { signal }), maxBytes, tooLong)
        assertSame(cidOf(bytes), cid)
        return bytes
      }),
    listPins: () =>
      ask(SHORT_ANSWER_BYTES, async (client, call) => {
        call.endAfter(listMilliseconds)
        const pins = new Set<string>()
        let count = 0
        for await (const { cid } of client.pin.ls({ type: 'recursive', signal: call.signal })) {
          pins.add(String(cid))
          count += 1
          if (count > MAX_PINS) throw new ServerError('ERR_IPFS_BAD_RESPONSE')
          // A line without end would be collected: only the next few pins are allowed for.
          call.maxBytes += PIN_BYTES
          call.restartDeadline()
        }
        return pins
      }),
    ping: () =>
      ask(SHORT_ANSWER_BYTES, async (client, { signal }) => {
        const { version } = await client.version({ signal })
        if (typeof version !== 'string') throw new ServerError('ERR_IPFS_BAD_RESPONSE')
      }),
    close() {
      isClosed = true
      for (const call of calls) call.end('ERR_IPFS_UNAVAILABLE')
    }
  }
}

function assertSame(answered: Cid | undefined, cid: string): void {
  if (answered === undefined || String(answered) !== cid) throw new ServerError('ERR_IPFS_BAD_RESPONSE')
}

/** Whether a node has no such pin to remove, as js-ipfs, Kubo and the proxy of IPFS Cluster word it. */
function isNotPinned(error: unknown): boolean {
  return (
    readStatus(error) === 500 &&
    /not pinned|pinned indirectly|not part of the pinset/.test(String(readErrorField(error, 'message')))
  )
}

/**
 * Converts the failure of a request to a code that describes the node.
 *
 * - ERR_IPFS_UNAVAILABLE: trying again makes sense. No connection, one that broke, a port that `fetch` blocks, a status
 *   5xx or 429: a proxy answers so for a node that is down, and a node answers 500 where its disk is full.
 * - ERR_IPFS_TIMEOUT: the node itself ran into a timeout.
 * - ERR_IPFS_BAD_RESPONSE: all else. A status 4xx, no HTTP, no JSON: this is no IPFS node, or it does not let us in.
 */
function toErrorCode(error: unknown): ServerErrorCode {
  const status = readStatus(error)
  if (readErrorField(error, 'name') === 'TimeoutError') return 'ERR_IPFS_TIMEOUT'
  if (status !== undefined) return status >= 500 || status === 429 ? 'ERR_IPFS_UNAVAILABLE' : 'ERR_IPFS_BAD_RESPONSE'
  return isConnectionTrouble(findReason(error)) ? 'ERR_IPFS_UNAVAILABLE' : 'ERR_IPFS_BAD_RESPONSE'
}

/** `fetch` says what went wrong in the cause of its own error. */
function findReason(error: unknown): unknown {
  return readErrorField(error, 'cause') ?? error
}

function readStatus(error: unknown): number | undefined {
  const status = readErrorField(readErrorField(error, 'response'), 'status')
  return typeof status === 'number' ? status : undefined
}

/** Not by class: errors may be of another realm. */
function readErrorField(value: unknown, name: 'cause' | 'message' | 'name' | 'response' | 'status'): unknown {
  return typeof value === 'object' && value !== null
    ? (value as Partial<Record<typeof name, unknown>>)[name]
    : undefined
}

/** Codes of the operating system, of DNS and of TLS, against those of an answer that is no HTTP. */
function isConnectionTrouble(reason: unknown): boolean {
  // A port that browsers block, such as 6000. It has no code.
  if (readErrorField(reason, 'message') === 'bad port') return true
  const code = getErrorCode(reason)
  if (code === undefined || code.startsWith('HPE_')) return false
  if (code.startsWith('UND_ERR_')) return ['UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT'].includes(code)
  return true
}

/** Logs a line when an IPFS node answers where Kubo listens by default. It waits for 1 s at most, and never fails. */
export async function logLocalNodeHint(log: Logger, url = 'http://127.0.0.1:5001'): Promise<void> {
  try {
    const options = { method: 'POST', redirect: 'error', signal: AbortSignal.timeout(1_000) } as const
    const { status, body } = await fetch(`${url}/api/v0/version`, options)
    await body?.cancel()
    const sentence = `an IPFS node answers at ${url}: with IPFS_API_URL content goes there as well`
    if (status === 200) log.info({ event: 'ipfs-found', url }, sentence)
  } catch {
    // No node, as on most machines.
  }
}
