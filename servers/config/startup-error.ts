import { basename, relative } from 'node:path'

/** Why a server cannot start, in one sentence for the operator. */
export class StartError extends Error {
  override readonly name: string = 'StartError'
}

const NO_NATIVE_PART = 'better-sqlite3 has no native part for this Node: npm rebuild better-sqlite3'

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EADDRINUSE: 'the port is in use',
  EADDRNOTAVAIL: 'this machine has no such address',
  EAI_AGAIN: 'the name server does not answer',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed',
  EEXIST: 'a file is in its place',
  EISDIR: 'a folder is in its place',
  ENOENT: 'it does not exist',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'a part of its path is a file',
  ENOTFOUND: 'no such host',
  EPERM: 'the operation is not permitted',
  EHOSTUNREACH: 'the host cannot be reached',
  EROFS: 'the disk is read-only',
  ETIMEDOUT: 'no answer in time',
  ERR_DLOPEN_FAILED: NO_NATIVE_PART,
  SQLITE_CANTOPEN: 'it cannot be opened',
  SQLITE_CORRUPT: 'the file is damaged',
  SQLITE_ERROR: 'its tables are not those of this server',
  SQLITE_FULL: 'the disk is full',
  SQLITE_NOTADB: 'the file is no SQLite database',
  SQLITE_READONLY: 'it can only be read',
  SQLITE_READONLY_DBMOVED: 'its file, or the log of it, was moved or deleted'
}

/** The `code` of an error of Node or SQLite. */
export function codeOf(error: unknown): string | undefined {
  // Not `instanceof`: an error may be of another realm.
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** Errors of databases, which have a code, and of `fetch` have their reason as their cause. */
function causeOf(error: unknown): unknown {
  const isWrapper = error instanceof Error && (codeOf(error) !== undefined || error.message === 'fetch failed')
  return isWrapper ? (error.cause ?? error) : error
}

/** Why something failed, for people. */
export function reasonOf(failure: unknown): string {
  const error = causeOf(failure)
  const code = codeOf(error)
  // Extended codes of SQLite, such as SQLITE_READONLY_DIRECTORY, count as their primary code.
  const known = code === undefined ? undefined : (REASONS[code] ?? REASONS[code.split('_').slice(0, 2).join('_')])
  const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n')
  return known ?? code ?? (line.includes('bindings file') ? NO_NATIVE_PART : line)
}

/** As {@link reasonOf}, with the error's own line where its code has no words here: for errors that quote no secret. */
export function reasonInWords(failure: unknown): string {
  const error = causeOf(failure)
  const reason = reasonOf(failure)
  return reason === codeOf(error) && error instanceof Error ? error.message : reason
}

/** Runs a step of the start. An error of the operating system becomes a sentence that begins with `what`. */
export function startStep<T>(what: string, step: () => T): T {
  try {
    return step()
  } catch (error) {
    throw error instanceof StartError ? error : new StartError(`${what}: ${reasonOf(error)}`, { cause: error })
  }
}

/** What the operator reads after a command that failed: never a stack. */
export function sentenceOf(error: unknown, command = ''): string {
  return error instanceof StartError ? error.message : `${command} failed: ${reasonInWords(error)}`
}

/**
 * A command, such as `keys new`, so that it runs as it is printed: by npx in a project, by the path of the program in a
 * checkout or a container, by its name where it is installed for the machine.
 */
export function ownCommand(args: string, script = process.argv[1] ?? ''): string {
  const name = basename(script)
  const isInstalled = /^express-did-auth(?:-servers)?$/.test(name)
  const program = isInstalled ? name : `node ${relative('', script)}`
  return `${isInstalled && script.includes('node_modules') ? 'npx ' : ''}${program} ${args}`
}
