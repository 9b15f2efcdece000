import { browser, type DeviceKeyPair } from '../wire/browser.js'
import { NOT_SIGNED_IN } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields, parseJson } from '../wire/json.js'
import { askDatabase } from './indexed-db.js'
import type { Setting } from './options.js'
import { askJson, canRepeat, mapToUnavailable, type Call } from '../wire/request.js'
import { decodeJwt } from '../wire/jwt.js'
import { createRandomText, encodeBase64url, getSubtle, utf8 } from '../wire/seal.js'
import { runWithin } from '../wire/timing.js'

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

/**
 * Sends a login or refresh with a DPoP proof (RFC 9449). Repeats it once if the proof's nonce has expired. A service
 * that sends no nonces does not bind sessions, and gets a login without proof.
 *
 * @throws DidAuthClientError with serverCode ERR_DEVICE_PROOF, without a request, if the key of a bound session is
 * missing; TypeError for a given pair of another kind; else as {@link askJson}
 */
export async function sendWithProof(setting: Setting, user: DeviceUser, call: Call): Promise<unknown> {
  const { deviceKey } = setting
  if (typeof deviceKey === 'object' && !/ECDSA.+P-256/.test(JSON.stringify(deviceKey.privateKey.algorithm)))
    throw TypeError('deviceKey: not P-256')
  const keyPair = await limit(setting, (user.pair ? findKey : createKey)(setting, user)).catch((error: unknown) => {
    // A login without proof opens an unbound session, which survives where the key would not.
    if (user.pair) throw error
  })
  if (!keyPair) {
    if (!user.isDeviceBound) return askJson(setting, call)
    throw new DidAuthClientError(NOT_SIGNED_IN, { message: 'deviceKey: not found', serverCode: 'ERR_DEVICE_PROOF' })
  }
  const send = async (): Promise<unknown> => {
    const DPoP = await createProof(setting, keyPair, 'POST', setting.url + call.path)
    return askJson(setting, { ...call, headers: { ...call.headers, DPoP } })
  }
  return send().catch((error: unknown) => {
    if (parseFields(error).serverCode === 'ERR_DEVICE_NONCE') return send()
    throw error
  })
}

/**
 * Returns a fetch that adds a proof to each request with a bound access token (RFC 9449, section 7). It repeats the
 * request once if the proof's nonce has expired, and the body can be sent again.
 *
 * @param session - the current one. In cookie mode, where scripts cannot read the token, its proofs have no `ath`
 */
export function addProofs(
  setting: Setting,
  fetch: typeof globalThis.fetch,
  session: DeviceUser | undefined
): typeof globalThis.fetch {
  return async (input, init = {}) => {
    const headers = new Headers(init.headers)
    const [, accessToken = ''] = /^DIDAuth (.+)/.exec(headers.get('Authorization') ?? '') ?? []
    const { sub, cnf } = parseFields(decodeJwt(accessToken))
    const request = typeof input === 'object' && 'url' in input ? input : undefined
    // Normalizes the method, such as `post`.
    const { url, method } = new Request(request?.url ?? input, { method: init.method ?? request?.method ?? 'GET' })
    const hasCookie = setting.usesCookies && !accessToken && setting.origins.has(new URL(url).origin)
    const user = hasCookie ? session : { did: String(sub), isDeviceBound: !!cnf }
    const keyPair = user && (await limit(setting, findKey(setting, user)))
    if (!keyPair) return fetch(input, init)
    const send = async (): Promise<Response> => {
      headers.set('DPoP', await createProof(setting, keyPair, method, url, accessToken))
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

/** Deletes the key of a user, unless a session of another tab may use it. A given key is the caller's. */
export async function deleteKey(setting: Setting, did: string): Promise<void> {
  const { deviceKey, device, storage } = setting
  if (typeof deviceKey === 'object') return
  const name = getKeyName(setting, did)
  if (ownsKeys(setting)) device.keys?.delete(name)
  else if (!storage.isPerTab) await limit(setting, askDatabase('delete', name))
}

/** Whether keys belong to the client object: its tokens are lost with it, too, or this is Node. */
function ownsKeys({ storage, usesCookies }: Setting): boolean {
  // A cookie outlives the client object with any storage.
  return (!!storage.isPrivate && !usesCookies) || !(browser.indexedDB || browser.window)
}

/** Limits the time for IndexedDB, which may never answer. @throws DidAuthClientError UNAVAILABLE */
function limit<T>({ timeoutSeconds }: Setting, work: Promise<T>): Promise<T> {
  return mapToUnavailable('deviceKey', undefined, () => runWithin(timeoutSeconds, undefined, () => work))
}

/** Finds the key for a session. A browser that blocks IndexedDB has none. @throws Error of IndexedDB */
async function findKey(setting: Setting, { did, isDeviceBound }: DeviceUser): Promise<DeviceKeyPair | undefined> {
  if (isDeviceBound === false) return undefined
  const { deviceKey, device } = setting
  if (typeof deviceKey === 'object') return deviceKey
  const name = getKeyName(setting, did)
  if (ownsKeys(setting)) return device.keys?.get(name)
  return askDatabase('get', name).catch((error: unknown) => {
    // Other errors may be temporary.
    if (browser.indexedDB && (error as Error).name !== 'SecurityError') throw error
  }) as Promise<DeviceKeyPair | undefined>
}

/** Finds or creates the key for a login; undefined if it cannot be stored. @throws Error of IndexedDB */
async function createKey(setting: Setting, user: DeviceUser): Promise<DeviceKeyPair | undefined> {
  const { device } = setting
  if (!device.nonce) return undefined
  const stored = await findKey(setting, user)
  if (stored) return stored
  const created = await getSubtle().generateKey(ES256, false, ['sign', 'verify'])
  const name = getKeyName(setting, user.did)
  if (ownsKeys(setting)) (device.keys ??= new Map<string, DeviceKeyPair>()).set(name, created)
  // Another tab may have added one in the meantime, which is then used.
  else await askDatabase('add', name, created).catch(() => undefined)
  return findKey(setting, user)
}

/** Returns the name of a user's key: per service and address, because EIP-4361 tells the DID only after the login. */
function getKeyName({ name }: Setting, did: string): string {
  return `${name} ${did.slice(-42).toLowerCase()} device`
}

/** Creates a proof of RFC 9449, section 4.2. */
async function createProof(
  { device, wallSeconds, url: base, serviceUrl }: Setting,
  { privateKey, publicKey }: DeviceKeyPair,
  method: string,
  url: string,
  accessToken?: string
): Promise<string> {
  const subtle = getSubtle()
  // `url` may be an internal address of the service, and a proof names the address that the service knows.
  const publicUrl = url.startsWith(`${base}/`) && /^https?:/.test(String(serviceUrl)) ? serviceUrl : url
  const { kty, crv, x, y } = await subtle.exportKey('jwk', publicKey)
  const ath = accessToken ? encode(await subtle.digest('SHA-256', utf8(accessToken))) : undefined
  const content = [
    { typ: 'dpop+jwt', alg: 'ES256', jwk: { kty, crv, x, y } },
    {
      jti: createRandomText(),
      htm: method,
      htu: new URL(String(publicUrl)).origin + new URL(url).pathname,
      iat: Math.floor(wallSeconds()),
      nonce: device.nonce,
      ath
    }
  ].map((part) => encodeBase64url(utf8(JSON.stringify(part))))
  const signed = content.join('.')
  return `${signed}.${encode(await subtle.sign(ES256, privateKey, utf8(signed)))}`
}

const encode = (buffer: ArrayBuffer): string => encodeBase64url(new Uint8Array(buffer))
