import { codeOf } from '../config/startup-error.js'
import type { Dependency } from '../observability/health-checks.js'
import { ServerError, type ServerErrorCode } from '../http/server-error.js'

/**
 * What relay and vault ask of an IPFS node. Each call ends within a deadline. What a node answers is compared with the
 * cid that was asked for, and never believed.
 */
export interface IpfsNode {
  /** Pins it. @throws ServerError ERR_IPFS_UNAVAILABLE, ERR_IPFS_TIMEOUT; ERR_IPFS_BAD_RESPONSE also for another cid */
  add(cid: string, bytes: Uint8Array): Promise<void>
  /** Removes the pin; succeeds as well when there is none. @throws ServerError as `add` */
  unpin(cid: string): Promise<void>
  /** The bytes of a cid. @throws ServerError as `add`; ERR_IPFS_TIMEOUT for what a node does not have and looks for */
  read(cid: string, maxBytes: number): Promise<Uint8Array>
  /** The cids of everything that is pinned there, also by others. @throws ServerError as `add` */
  listPins(): Promise<ReadonlySet<string>>
  /** Resolves when the node answers. @throws ServerError as `add` */
  ping(): Promise<void>
}

/** What `/ready` asks of a node. The servers work without it, and without any. */
export function ipfsDependency(node: Pick<IpfsNode, 'ping'> | undefined): Dependency {
  const own = { name: 'ipfs', isNeeded: false }
  return node === undefined
    ? { ...own, success: 'none', check: () => Promise.resolve() }
    : { ...own, check: () => node.ping() }
}

/**
 * What a failed request says about the node, for an operator who reads the code.
 *
 * - ERR_IPFS_UNAVAILABLE: no connection, one that broke, a port that `fetch` blocks, a status 5xx or 429. A proxy
 *   answers so for a node that is down, and a node answers 500 for its own trouble, such as a full disk. Trying again
 *   makes sense.
 * - ERR_IPFS_TIMEOUT: the node itself ran into a timeout.
 * - ERR_IPFS_BAD_RESPONSE: all else. A status 4xx, no HTTP, no JSON: this is no IPFS node, or it does not let us in.
 */
export function ipfsFailure(error: unknown): ServerError {
  return new ServerError(failureCode(error), { cause: reasonOf(error) })
}

/** Whether a node has no such pin to remove, as js-ipfs, Kubo and the proxy of IPFS Cluster word it. */
export function isNotPinned(error: unknown): boolean {
  return (
    statusOf(error) === 500 &&
    /not pinned|pinned indirectly|not part of the pinset/.test(String(fieldOf(error, 'message')))
  )
}

function failureCode(error: unknown): ServerErrorCode {
  const status = statusOf(error)
  if (fieldOf(error, 'name') === 'TimeoutError') return 'ERR_IPFS_TIMEOUT'
  if (status !== undefined) return status >= 500 || status === 429 ? 'ERR_IPFS_UNAVAILABLE' : 'ERR_IPFS_BAD_RESPONSE'
  return isConnectionTrouble(reasonOf(error)) ? 'ERR_IPFS_UNAVAILABLE' : 'ERR_IPFS_BAD_RESPONSE'
}

/** `fetch` says what went wrong in the cause of its own error. */
function reasonOf(error: unknown): unknown {
  return fieldOf(error, 'cause') ?? error
}

/** The status in the error that the client makes of an answer. */
function statusOf(error: unknown): number | undefined {
  const status = fieldOf(fieldOf(error, 'response'), 'status')
  return typeof status === 'number' ? status : undefined
}

/** Not by class: errors may be of another realm. */
function fieldOf(value: unknown, name: 'cause' | 'message' | 'name' | 'response' | 'status'): unknown {
  return typeof value === 'object' && value !== null
    ? (value as Partial<Record<typeof name, unknown>>)[name]
    : undefined
}

/** Codes of the operating system, of DNS and of TLS, against those of an answer that is no HTTP. */
function isConnectionTrouble(reason: unknown): boolean {
  // A port that browsers block, such as 6000. It has no code.
  if (fieldOf(reason, 'message') === 'bad port') return true
  const code = codeOf(reason)
  if (code === undefined || code.startsWith('HPE_')) return false
  if (code.startsWith('UND_ERR_')) return ['UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT'].includes(code)
  return true
}
