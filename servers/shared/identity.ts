import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync, unlinkSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { didOfPrivateKey } from 'express-did-auth'
import type { ServerEnv } from './read-env.js'

/** Who a server is: all servers of one `DATA_DIR` are the same. */
export interface Identity {
  serviceDid: string
  /** 64 hexadecimal digits. */
  privateKey: string
  challengeSecret: string
}

/**
 * The identity that the environment gives, or the one in `DATA_DIR`, made there on the first run.
 *
 * @throws Error naming the file, never its content, when what lies there is not usable
 */
export async function loadIdentity(
  env: Pick<ServerEnv, 'DATA_DIR' | 'PRIVATE_KEY' | 'CHALLENGE_SECRET' | 'SERVICE_DID' | 'NETWORK_NAME'>
): Promise<Identity> {
  mkdirSync(env.DATA_DIR, { recursive: true, mode: 0o700 })
  const privateKey = env.PRIVATE_KEY ?? keptSecret(env.DATA_DIR, 'private-key', /^[0-9a-f]{64}$/)
  const challengeSecret = env.CHALLENGE_SECRET ?? keptSecret(env.DATA_DIR, 'challenge-secret', /^[0-9a-f]{64}$/)
  const serviceDid = env.SERVICE_DID ?? (await didOfPrivateKey(privateKey, env.NETWORK_NAME))
  return { serviceDid, privateKey, challengeSecret }
}

/** Reads a secret of 32 random bytes, or makes it: complete or not at all, also when two servers start at once. */
function keptSecret(dataDir: string, name: string, form: RegExp): string {
  const file = join(dataDir, name)
  const known = readIfThere(file)
  const secret = known ?? makeOnce(file)
  if (!form.test(secret)) throw new Error(`${file} holds no secret of 64 hex digits; restore it, or remove it`)
  return secret
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

function makeOnce(file: string): string {
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  const descriptor = openSync(draft, 'wx', 0o600)
  try {
    writeSync(descriptor, `${randomBytes(32).toString('hex')}\n`)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
  try {
    // A link fails where a name is taken: the first of two wins, and both read the same.
    linkSync(draft, file)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  } finally {
    unlinkSync(draft)
  }
  return readFileSync(file, 'utf8').trim()
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
