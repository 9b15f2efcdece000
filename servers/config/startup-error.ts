import { basename, relative } from 'node:path'
import { types } from 'node:util'

/** Error that explains in one sentence for the operator why a server or a command cannot start. */
export class StartError extends Error {
  override readonly name: string = 'StartError'
}

const REASONS: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'self-signed certificate',
  EACCES: 'permission denied',
  EADDRINUSE: 'the port is in use',
  EADDRNOTAVAIL: 'this machine has no such address',
  EAI_AGAIN: 'the name server does not answer',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed',
  EEXIST: 'a file with this name exists already',
  EISDIR: 'it is a folder',
  ENOENT: 'it does not exist',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'a part of its path is a file',
  ENOTFOUND: 'this host name does not exist',
  EPERM: 'the operation is not permitted',
  EHOSTUNREACH: 'the host cannot be reached',
  EROFS: 'the disk is read-only',
  ETIMEDOUT: 'no answer in time',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate names another host',
  SELF_SIGNED_CERT_IN_CHAIN: 'self-signed certificate in its chain',
  SQLITE_CANTOPEN: 'it cannot be opened',
  SQLITE_CORRUPT: 'the file is damaged',
  SQLITE_ERROR: 'its tables are not those of this server',
  SQLITE_FULL: 'the disk is full',
  SQLITE_NOTADB: 'the file is not an SQLite database',
  SQLITE_READONLY: 'it is read-only',
  SQLITE_READONLY_DBMOVED: 'its file or its write-ahead log was moved or deleted',
  UNABLE_TO_GET_ISSUER_CERT: 'an unknown authority issued its certificate',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'an unknown authority issued its certificate',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'an unknown authority issued its certificate',
  UND_ERR_SOCKET: 'the connection was closed'
}

/** Returns the `code` of an error of Node or SQLite. */
export function getErrorCode(error: unknown): string | undefined {
  // `instanceof` would miss errors of another realm.
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** Whether a value is an error of any realm. */
function isError(value: unknown): value is Error {
  return value instanceof Error || types.isNativeError(value)
}

/** Returns the error that names the reason. Errors with a code and those of `fetch` have it as their cause. */
function findCause(error: unknown): unknown {
  const isWrapper = isError(error) && (getErrorCode(error) !== undefined || error.message === 'fetch failed')
  return isWrapper ? (error.cause ?? error) : error
}

/** Whether an error comes from `AbortSignal.timeout`. It has no string code. */
function isTimeout(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'name' in error && error.name === 'TimeoutError'
}

/** Kinds of remedies for a refused certificate, by the code of the error. */
const CERTIFICATE_REMEDIES: Readonly<Record<string, 'authority' | 'name' | 'time'>> = {
  CERT_HAS_EXPIRED: 'time',
  CERT_NOT_YET_VALID: 'time',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'authority',
  ERR_TLS_CERT_ALTNAME_INVALID: 'name',
  SELF_SIGNED_CERT_IN_CHAIN: 'authority',
  UNABLE_TO_GET_ISSUER_CERT: 'authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'authority'
}

/**
 * Returns what to do about the certificate of a service; undefined if the error has another reason.
 *
 * @param variables - the variables that contain the URL of the service, and the file of its CA certificates
 */
export function findCertificateRemedy(
  failure: unknown,
  variables: Readonly<Record<'url' | 'ca', string>>
): string | undefined {
  const kind = CERTIFICATE_REMEDIES[getErrorCode(findCause(failure)) ?? '']
  if (kind === 'authority') return `set ${variables.ca} to a file with the certificate of its authority`
  if (kind === 'name') return `give a host name of the certificate in ${variables.url}`
  return kind === 'time' ? 'renew the certificate on that machine, and check both clocks' : undefined
}

/** Describes in words why something failed. */
export function describeReason(failure: unknown): string {
  const error = findCause(failure)
  const code = isTimeout(error) ? 'ETIMEDOUT' : getErrorCode(error)
  // Extended codes of SQLite, such as SQLITE_READONLY_DIRECTORY, fall back to their primary code.
  const knownReason = code === undefined ? undefined : (REASONS[code] ?? REASONS[code.split('_').slice(0, 2).join('_')])
  const [line = ''] = (isError(error) ? error.message : String(error)).split('\n')
  return knownReason ?? code ?? line
}

/** Returns {@link describeReason}, or the message of an unknown code. Only for messages that contain no secrets. */
export function describeReasonInWords(failure: unknown): string {
  const error = findCause(failure)
  const reason = describeReason(failure)
  return reason === getErrorCode(error) && isError(error) ? error.message : reason
}

/** Runs a step of the start. An error becomes a StartError `<problem>: <reason>`. */
export function startStep<T>(problem: string, step: () => T): T {
  try {
    return step()
  } catch (error) {
    throw error instanceof StartError ? error : new StartError(`${problem}: ${describeReason(error)}`, { cause: error })
  }
}

/**
 * Returns a command line for arguments such as `keys new` that the operator can copy. It uses npx in a project, the
 * path of the program in a checkout or a container, and the plain name for a global installation.
 */
export function ownCommand(args: string, script = process.argv[1] ?? ''): string {
  const name = basename(script)
  const isInstalled = /^express-did-auth(?:-servers)?$/.test(name)
  const program = isInstalled ? name : `node ${relative('', script)}`
  return `${isInstalled && script.includes('node_modules') ? 'npx ' : ''}${program} ${args}`
}
