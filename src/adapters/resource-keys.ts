import { createLazy } from '../lazy.js'
import type { ExternalResourceKey, ResourceKey, ResourceKeys } from '../ports.js'
import { encodeBase64url } from '../protocol/encoding.js'
import type { JsonObject } from '../protocol/json.js'
import { isBytes } from '../protocol/is-bytes.js'
import type { Deadline } from '../time.js'
import { REQUEST_SECONDS } from '../time-limits.js'
import { createLateError, createSignerError } from './service-key.js'

const ES256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

const encodeText = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text)
const encodeJson = (value: object): string => encodeBase64url(encodeText(JSON.stringify(value)))

/** Returns the published form of a key: its public half, with its thumbprint (RFC 7638) as `kid`. */
async function publishKey({ x = '', y = '' }: Pick<ResourceKey, 'x' | 'y'>) {
  const { calculateJwkThumbprint } = await import('jose')
  const jwk = { kty: 'EC', crv: 'P-256', x, y }
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: 'ES256', use: 'sig' }
}

type PublishedKey = Awaited<ReturnType<typeof publishKey>>

/** A key that signs, with its published form. */
interface LoadedKey extends Pick<ResourceKeys, 'sign'> {
  published: PublishedKey
}

async function loadPrivateKey(jwk: ResourceKey): Promise<LoadedKey> {
  const { importJWK, SignJWT } = await import('jose')
  const published = await publishKey(jwk)
  const { kty, crv, x, y, kid } = published
  const key = await importJWK({ kty, crv, x, y, d: jwk.d ?? '' }, 'ES256')
  return {
    published,
    sign: (claims) => new SignJWT(claims).setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid }).sign(key)
  }
}

/**
 * Loads a key that is stored elsewhere. Each signature is verified: a key store that has changed its key must not issue
 * tokens that no service accepts.
 */
async function loadExternalKey(external: ExternalResourceKey): Promise<LoadedKey> {
  const published = await publishKey(external.publicKey)
  const { kty, crv, x, y, kid } = published
  const key = await crypto.subtle.importKey('jwk', { kty, crv, x, y }, ES256, false, ['verify'])
  const header = encodeJson({ alg: 'ES256', typ: 'at+jwt', kid })

  const signInput = async (input: Uint8Array<ArrayBuffer>, deadline: Deadline): Promise<Uint8Array> => {
    const signature = await deadline.within(REQUEST_SECONDS, () => external.sign(input), createLateError)
    const isSigned = isBytes(signature) && (await crypto.subtle.verify(ES256, key, signature.slice(), input))
    if (!isSigned) throw new Error('the signature does not match the public key of the resource key')
    return signature
  }

  return {
    published,
    async sign(claims: JsonObject, deadline: Deadline) {
      const input = `${header}.${encodeJson(claims)}`
      try {
        return `${input}.${encodeBase64url(await signInput(encodeText(input), deadline))}`
      } catch (cause) {
        throw createSignerError(cause)
      }
    }
  }
}

/** Creates signer and publisher of P-256 keys. Each key's `kid` is its thumbprint (RFC 7638). */
export function createResourceKeys(keys: readonly (ResourceKey | ExternalResourceKey)[]): ResourceKeys {
  const load = (key: ResourceKey | ExternalResourceKey): Promise<LoadedKey> =>
    'publicKey' in key ? loadExternalKey(key) : loadPrivateKey(key)
  const loaded = createLazy(() => Promise.all(keys.map(load)))
  return {
    async sign(claims, deadline) {
      const [first] = await loaded()
      if (first === undefined) throw new TypeError('there is no key for tokens of other services')
      return first.sign(claims, deadline)
    },
    publish: async () => ({ keys: (await loaded()).map(({ published }) => published) })
  }
}
