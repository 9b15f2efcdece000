import { ServerError, type ServerErrorCode } from '../http/server-error.js'
import { codeOf } from '../environment/start-error.js'

/**
 * What a failed request to a node says about the node, for an operator who reads the code.
 *
 * - away: no connection, one that broke, a status 5xx or 429. A proxy in front of a node that is down answers so, and a
 *   node answers 500 for its own trouble, such as a full disk: to try again makes sense, to doubt the address does not.
 * - slow: the node itself ran into a timeout.
 * - nonsense: all else. A status 4xx, no HTTP, no JSON: what is there is no node, or does not let us in.
 */
export function ipfsFailure(error: unknown): ServerError {
  return new ServerError(failureCode(error), { cause: reasonOf(error) })
}

/** Whether a node refused to take off or to list a pin because there is none: js-ipfs and Kubo say it in words of their own. */
export function isNotPinned(error: unknown): boolean {
  return statusOf(error) === 500 && /not pinned|pinned indirectly/.test(String(fieldOf(error, 'message')))
}

function failureCode(error: unknown): ServerErrorCode {
  const status = statusOf(error)
  if (fieldOf(error, 'name') === 'TimeoutError') return 'ERR_NODE_SLOW'
  if (status !== undefined) return status >= 500 || status === 429 ? 'ERR_NODE_AWAY' : 'ERR_NODE_NONSENSE'
  return isConnectionTrouble(codeOf(reasonOf(error))) ? 'ERR_NODE_AWAY' : 'ERR_NODE_NONSENSE'
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
function isConnectionTrouble(code: string | undefined): boolean {
  if (code === undefined || code.startsWith('HPE_')) return false
  if (code.startsWith('UND_ERR_')) return ['UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT'].includes(code)
  return true
}
