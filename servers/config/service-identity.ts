import { randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { didOfPrivateKey, isPrivateKey } from 'express-did-auth'
import type { ServerEnv } from './read-env.js'
import { codeOf, StartError, startStep } from './startup-error.js'

/** The identity of a server. All servers of one `DATA_DIR` share it. */
export interface Identity {
  serviceDid: string
  /** 64 hexadecimal digits. */
  privateKey: string
  challengeSecret: string
}

/**
 * The identity from the environment, or the one in `DATA_DIR`, created there on the first run.
 *
 * @throws StartError naming the file, never its content, when the file is not usable
 */
export async function loadIdentity(
  env: Pick<ServerEnv, 'DATA_DIR' | 'PRIVATE_KEY' | 'CHALLENGE_SECRET' | 'SERVICE_DID' | 'NETWORK_NAME'>
): Promise<Identity> {
  const { privateKey, challengeSecret } = startStep(`Cannot use the folder ${env.DATA_DIR} (DATA_DIR)`, () => {
    mkdirSync(env.DATA_DIR, { recursive: true, mode: 0o700 })
    return {
      privateKey: env.PRIVATE_KEY ?? keptKey(join(env.DATA_DIR, 'private-key')),
      challengeSecret: env.CHALLENGE_SECRET ?? keptSecret(join(env.DATA_DIR, 'challenge-secret'))
    }
  })
  const serviceDid = env.SERVICE_DID ?? (await didOfPrivateKey(privateKey, env.NETWORK_NAME))
  return { serviceDid, privateKey, challengeSecret }
}

/** Not every secret is a key: another secret may be in the file. */
function keptKey(file: string): string {
  const key = keptSecret(file)
  if (isPrivateKey(key)) return key
  throw new StartError(`The file ${file} holds no key of secp256k1: restore it, or remove it for a new identity`)
}

/** Reads a secret of 32 random bytes, or makes it: complete or not at all, also when two servers start at once. */
function keptSecret(file: string): string {
  if (!existsSync(file)) makeOnce(file)
  const secret = readFileSync(file, 'utf8').trim()
  if (/^[0-9a-f]{64}$/.test(secret)) return secret
  throw new StartError(`The file ${file} does not hold 64 hex digits: restore it, or remove it for a new identity`)
}

function makeOnce(file: string): void {
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  try {
    writeFileSync(draft, `${randomBytes(32).toString('hex')}\n`, { flag: 'wx', mode: 0o600, flush: true })
    // A link fails where a file exists: the first of two processes wins, and both read the same.
    linkSync(draft, file)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  } finally {
    rmSync(draft, { force: true })
  }
  keepName(join(file, '..'))
}

/** Without this sync a loss of power could lose the file's name, and the service would return with another identity. */
function keepName(folder: string): void {
  // Windows has no such thing.
  if (process.platform === 'win32') return
  const descriptor = openSync(folder, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
