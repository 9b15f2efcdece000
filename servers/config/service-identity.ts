import { createECDH, randomBytes } from 'node:crypto'
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
import { didOfPrivateKey, isPrivateKey, type ResourceKey } from 'express-did-auth'
import type { ServerEnv } from './read-env.js'
import { codeOf, StartError, startStep } from './startup-error.js'

/** The identity of a server. All servers of one `DATA_DIR` share it. */
export interface Identity {
  serviceDid: string
  /** 64 hexadecimal digits. */
  privateKey: string
  /** DIDs of the keys that it replaced, whose tokens are still accepted. */
  previousServiceDids?: readonly string[]
  challengeSecret: string
  /** Of the auth server: the first signs tokens for other services. Empty where instances were given none to share. */
  resourceKeys?: readonly ResourceKey[]
}

type IdentityEnv = Pick<ServerEnv, 'DATA_DIR'> & Partial<ServerEnv>

/**
 * The identity from the environment, or the one in `DATA_DIR`, created there on the first run.
 *
 * @throws StartError naming the file, never its content, when the file is not usable
 */
export async function loadIdentity(env: IdentityEnv): Promise<Identity> {
  const secrets = startStep(`Cannot use the folder ${env.DATA_DIR} (DATA_DIR)`, () => {
    mkdirSync(env.DATA_DIR, { recursive: true, mode: 0o700 })
    return {
      privateKeys: env.PRIVATE_KEY ?? readOrCreateKeys(join(env.DATA_DIR, 'private-key'), isPrivateKey),
      challengeSecret: env.CHALLENGE_SECRET ?? keptSecret(join(env.DATA_DIR, 'challenge-secret')),
      resourceKeys: resourceSecrets(env).map(resourceKeyOf)
    }
  })
  const { privateKeys, ...others } = secrets
  const dids = await Promise.all(privateKeys.map((key) => didOfPrivateKey(key, env.NETWORK_NAME)))
  const [[privateKey = ''], [ownDid = '', ...previousServiceDids]] = [privateKeys, dids]
  return { serviceDid: env.SERVICE_DID ?? ownDid, previousServiceDids, privateKey, ...others }
}

function resourceSecrets(env: IdentityEnv): readonly string[] {
  if (env.name !== 'auth') return []
  const isAlone = env.DATABASE_URL === undefined
  return env.RESOURCE_KEY ?? (isAlone ? readOrCreateKeys(join(env.DATA_DIR, 'resource-key')) : [])
}

function resourceKeyOf(secret: string): ResourceKey {
  const pair = createECDH('prime256v1')
  pair.setPrivateKey(secret, 'hex')
  // One byte for its form, then both coordinates.
  const point = pair.getPublicKey()
  const [x, y, d] = [point.subarray(1, 33), point.subarray(33), Buffer.from(secret, 'hex')]
  return { kty: 'EC', crv: 'P-256', x: x.toString('base64url'), y: y.toString('base64url'), d: d.toString('base64url') }
}

/** Reads a secret of 32 random bytes, or makes it: complete or not at all, also when two servers start at once. */
function keptSecret(file: string): string {
  const [secret = '', ...others] = readOrCreateKeys(file)
  if (others.length === 0) return secret
  throw new StartError(`The file ${file} contains more than one secret: give only one`)
}

/** Reads the keys of a file, separated by commas or line ends, or creates the first one as {@link keptSecret} does. */
function readOrCreateKeys(file: string, isKey?: (key: string) => boolean): readonly string[] {
  if (!existsSync(file)) makeOnce(file)
  const keys = readFileSync(file, 'utf8')
    .trim()
    .split(/[\s,]+/)
  const areSecrets = keys.every((key) => /^[0-9a-f]{64}$/.test(key))
  if (areSecrets && keys.every((key) => isKey?.(key) !== false)) return keys
  const form = areSecrets ? 'a secp256k1 key' : '64 hex digits'
  throw new StartError(`The file ${file} does not contain ${form}: restore it, or delete it to create a new identity`)
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
  if (process.platform === 'win32') return
  const descriptor = openSync(folder, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
