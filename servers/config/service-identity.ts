import { createECDH } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { didOfPrivateKey, type ResourceKey } from 'express-did-auth'
import { toNetwork } from 'express-did-auth/server-kit'
import { variables } from './env-schema.js'
import { createPrivateFolder, isUnfinishedSecret, readOrCreateSecret, SECRET_DIGITS } from './private-files.js'
import type { ServerEnv } from './read-env.js'
import { StartError, startStep } from './startup-error.js'

/** Identity of a server. All servers with the same `DATA_DIR` share it. */
export interface Identity {
  serviceDid: string
  /** 64 hexadecimal digits. */
  privateKey: string
  /** DIDs of replaced keys, whose tokens are still accepted. */
  previousServiceDids?: readonly string[]
  challengeSecret: string
  /**
   * Keys of the auth server if it runs in this process. The first key signs tokens for other services. Empty if a
   * database is configured without `RESOURCE_KEY`, because all instances need the same keys.
   */
  resourceKeys?: readonly ResourceKey[]
}

const PRIVATE_KEY_FILE = 'private-key'

type IdentityEnv = Pick<ServerEnv, 'DATA_DIR'> & Partial<ServerEnv>

/**
 * Returns the identity from the environment or from `DATA_DIR`, where the first start creates it.
 *
 * @param isOneOfAll - whether the auth server also runs in this process
 * @throws StartError that names the unusable file, but not its content
 */
export async function loadIdentity(env: IdentityEnv, isOneOfAll = false): Promise<Identity> {
  const secrets = startStep(`Cannot use the folder ${env.DATA_DIR} (DATA_DIR)`, () => {
    createPrivateFolder(env.DATA_DIR)
    return {
      privateKeys:
        env.PRIVATE_KEY ??
        readOrCreateKeys(join(env.DATA_DIR, PRIVATE_KEY_FILE), variables.shape.PRIVATE_KEY, 'of secp256k1'),
      challengeSecret: env.CHALLENGE_SECRET ?? readOrCreateChallengeSecret(join(env.DATA_DIR, 'challenge-secret')),
      resourceKeys: env.name === 'auth' || isOneOfAll ? readResourceSecrets(env).map(createResourceKey) : []
    }
  })
  const { privateKeys, ...otherSecrets } = secrets
  const network = env.NETWORK_NAME === undefined ? undefined : toNetwork(env.NETWORK_NAME)
  const dids = await Promise.all(privateKeys.map((key) => didOfPrivateKey(key, network)))
  const [[privateKey = ''], [keyDid = '', ...previousServiceDids]] = [privateKeys, dids]
  return { serviceDid: env.SERVICE_DID ?? keyDid, previousServiceDids, privateKey, ...otherSecrets }
}

/** Finds the private key in the environment or in `DATA_DIR`, without creating one. */
export function findPrivateKey({ PRIVATE_KEY: keys, DATA_DIR: folder }: IdentityEnv): string | undefined {
  if (keys !== undefined) return keys[0]
  try {
    return variables.shape.PRIVATE_KEY.safeParse(readFileSync(join(folder, PRIVATE_KEY_FILE), 'utf8').trim()).data?.[0]
  } catch {
    // The file does not exist before the first start.
    return undefined
  }
}

/** Reads the keys from the variable or the file. During a rotation there are several. */
function readResourceSecrets(env: IdentityEnv): readonly string[] {
  if (env.RESOURCE_KEY !== undefined) return env.RESOURCE_KEY
  if (env.DATABASE_URL !== undefined) return []
  return readOrCreateKeys(join(env.DATA_DIR, 'resource-key'), variables.shape.RESOURCE_KEY, 'of P-256')
}

function createResourceKey(secret: string): ResourceKey {
  const pair = createECDH('prime256v1')
  pair.setPrivateKey(secret, 'hex')
  // The point is one byte for its format, followed by both coordinates.
  const point = pair.getPublicKey()
  const [x, y, d] = [point.subarray(1, 33), point.subarray(33), Buffer.from(secret, 'hex')]
  return { kty: 'EC', crv: 'P-256', x: x.toString('base64url'), y: y.toString('base64url'), d: d.toString('base64url') }
}

/** Reads keys from a file, which has the format of the variable, or creates the file with one key. */
function readOrCreateKeys(
  file: string,
  form: typeof variables.shape.PRIVATE_KEY | typeof variables.shape.RESOURCE_KEY,
  curve: string
): readonly string[] {
  const text = readOrCreateSecret(file)
  const { data } = form.safeParse(text)
  if (data !== undefined) return data
  assertWholeSecret(file, text)
  throw new StartError(`The file ${file} does not contain private keys ${curve}, 64 hex digits each: ${RESTORE}`)
}

const RESTORE = 'restore it, or delete it to create a new identity'

/** @throws StartError for a file that a crash left with too few digits */
function assertWholeSecret(file: string, text: string): void {
  if (!isUnfinishedSecret(text)) return
  const problem = `The file ${file} has ${text.length} of ${SECRET_DIGITS} digits, because its creation did not finish`
  throw new StartError(`${problem}: delete it, or restore it if the service had already started`)
}

function readOrCreateChallengeSecret(file: string): string {
  const secret = readOrCreateSecret(file)
  if (/^[0-9a-f]{64}$/.test(secret)) return secret
  assertWholeSecret(file, secret)
  throw new StartError(`The file ${file} does not contain a secret of 64 hex digits: ${RESTORE}`)
}
