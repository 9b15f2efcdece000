import { browser, type DeviceKeyPair } from '../wire/browser.js'
import { NOT_SIGNED_IN } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields, parseJson } from '../wire/json.js'
import { askDatabase } from './indexed-db.js'
import type { DeviceState, Setting } from './options.js'
import { askJson, canRepeat, mapToUnavailable, type Call } from '../wire/request.js'
import { decodeJwt } from '../wire/jwt.js'
import { createRandomText, encodeBase64url, utf8 } from '../wire/seal.js'

/** The user of a login, or the stored session of a refresh. */
export interface DeviceUser {
  readonly did: string
  /** Present at a refresh. */
  readonly pair?: string
  /** Undefined if unknown, as in cookie mode after the storage was cleared. */
  readonly isDeviceBound?: boolean | undefined
}

/** ES256 (RFC 7518, section 3.4). */
const ES256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

/** Keys of users by client and name, where there is no IndexedDB. */
const keysByClient = new WeakMap<DeviceState, Map<string, DeviceKeyPair>>()

function getKeys({ device }: Setting): Map<string, DeviceKeyPair> {
  const keys = keysByClient.get(device) ?? new Map<string, DeviceKeyPair>()
  keysByClient.set(device, keys)
  return keys
}

/**
 * Sends a login or refresh with a DPoP proof (RFC 9449). Repeats it once if the proof's nonce has expired. A service
 * that sends no nonces does not bind sessions, and gets a login without proof.
 *
 * @throws DidAuthClientError with serverCode ERR_DEVICE_PROOF, without a request, if the key of a bound session is
 * missing; else as {@link askJson}
 */
export async function prove(setting: Setting, user: DeviceUser, call: Call): Promise<unknown> {
  const pair = await mapToUnavailable('deviceKey', call.signal, () => (user.pair ? findKey : createKey)(setting, user))
  if (!pair && user.isDeviceBound) throw new DidAuthClientError(NOT_SIGNED_IN, { serverCode: 'ERR_DEVICE_PROOF' })
  const send = async (): Promise<unknown> => {
    const headers = pair && { ...call.headers, DPoP: await createProof(setting, pair, 'POST', setting.url + call.path) }
    return askJson(setting, { ...call, ...(headers && { headers }) })
  }
  if (!user.pair) setting.device.isDeviceBound = !!pair
  return send().catch((error: unknown) => {
    if (pair && parseFields(error).serverCode === 'ERR_DEVICE_NONCE') return send()
    throw error
  })
}

/**
 * Wraps a fetch, so that a request with a bound access token has a proof for it (RFC 9449, section 7). It repeats the
 * request once if the proof's nonce has expired, and the body can be sent again.
 */
export function wrap(setting: Setting, fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init = {}) => {
    const headers = new Headers(init.headers)
    const [, accessToken = ''] = /^DIDAuth (.+)/.exec(headers.get('Authorization') ?? '') ?? []
    const { sub, cnf } = decodeJwt(accessToken)
    const pair = await findKey(setting, { did: String(sub), isDeviceBound: !!cnf })
    if (!pair) return fetch(input, init)
    const request = typeof input === 'object' && 'url' in input ? input : undefined
    // Normalizes the method, such as `post`.
    const { url, method } = new Request(request?.url ?? input, { method: init.method ?? request?.method ?? 'GET' })
    const send = async (): Promise<Response> => {
      headers.set('DPoP', await createProof(setting, pair, method, url, accessToken))
      const response = await fetch(input, { ...init, headers })
      setting.device.nonce = response.headers.get('DPoP-Nonce') ?? setting.device.nonce
      return response
    }
    const response = await send()
    const mayRepeat = response.status === 401 && canRepeat(init.body ?? request?.body)
    const { code } = parseFields(mayRepeat && parseJson(await response.clone().text()))
    return code === 'ERR_DEVICE_NONCE' ? send() : response
  }
}

/** Deletes the key of a user. A given key is the caller's. */
export async function deleteKey(setting: Setting, did: string): Promise<void> {
  const name = getKeyName(setting, did)
  getKeys(setting).delete(name)
  if (browser.indexedDB) await askDatabase('delete', name).catch(() => undefined)
}

/** Finds the key for a session. @throws Error of IndexedDB */
async function findKey(setting: Setting, { did, isDeviceBound }: DeviceUser): Promise<DeviceKeyPair | undefined> {
  if (isDeviceBound === false) return undefined
  const { deviceKey } = setting
  if (typeof deviceKey === 'object') return deviceKey
  const name = getKeyName(setting, did)
  const pair = getKeys(setting).get(name)
  if (pair || !browser.indexedDB) return pair
  return (await askDatabase('get', name)) as DeviceKeyPair | undefined
}

/** Finds or creates the key for a login. Keeps it in memory if the browser blocks IndexedDB. */
async function createKey(setting: Setting, user: DeviceUser): Promise<DeviceKeyPair | undefined> {
  if (!setting.device.nonce) return undefined
  const find = async (): Promise<DeviceKeyPair | undefined> => findKey(setting, user).catch(() => undefined)
  const stored = await find()
  if (stored) return stored
  const created = await crypto.subtle.generateKey(ES256, false, ['sign', 'verify'])
  const name = getKeyName(setting, user.did)
  // Another tab may have added one in the meantime, which is then used.
  if (browser.indexedDB) await askDatabase('add', name, created).catch(() => undefined)
  const added = await find()
  if (!added) getKeys(setting).set(name, created)
  return added ?? created
}

/** Returns the name of a user's key: per service and address, because EIP-4361 tells the DID only after the login. */
function getKeyName({ name }: Setting, did: string): string {
  return `${name} ${did.slice(-42).toLowerCase()} device`
}

/** Creates a proof of RFC 9449, section 4.2. */
async function createProof(
  { device, wallSeconds }: Setting,
  { privateKey, publicKey }: DeviceKeyPair,
  method: string,
  url: string,
  accessToken?: string
): Promise<string> {
  const { subtle } = crypto
  const { kty, crv, x, y } = await subtle.exportKey('jwk', publicKey)
  const ath = accessToken && encode(await subtle.digest('SHA-256', utf8(accessToken)))
  const content = [
    { typ: 'dpop+jwt', alg: 'ES256', jwk: { kty, crv, x, y } },
    {
      jti: createRandomText(),
      htm: method,
      htu: url.replace(/[?#].*/, ''),
      iat: Math.floor(wallSeconds()),
      nonce: device.nonce,
      ath
    }
  ].map((part) => encodeBase64url(utf8(JSON.stringify(part))))
  const signed = content.join('.')
  return `${signed}.${encode(await subtle.sign(ES256, privateKey, utf8(signed)))}`
}

const encode = (buffer: ArrayBuffer): string => encodeBase64url(new Uint8Array(buffer))
