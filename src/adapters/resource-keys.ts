import { lazy } from '../lazy.js'
import type { ResourceKey, ResourceKeys } from '../ports.js'

/** Keys of P-256, each published under its thumbprint (RFC 7638). jose is loaded on first use. */
export function resourceKeys(keys: readonly ResourceKey[]): ResourceKeys {
  const loaded = lazy(async () => {
    const { calculateJwkThumbprint, importJWK, SignJWT } = await import('jose')
    const load = async ({ x = '', y = '', d = '' }: ResourceKey) => {
      const jwk = { kty: 'EC', crv: 'P-256', x, y }
      const kid = await calculateJwkThumbprint(jwk)
      const key = await importJWK({ ...jwk, d }, 'ES256')
      const sign: ResourceKeys['sign'] = (claims) =>
        new SignJWT(claims).setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid }).sign(key)
      return { sign, published: { ...jwk, kid, alg: 'ES256', use: 'sig' } }
    }
    return Promise.all(keys.map(load))
  })
  return {
    async sign(claims) {
      const [first] = await loaded()
      if (first === undefined) throw new TypeError('there is no key for tokens of other services')
      return first.sign(claims)
    },
    publish: async () => ({ keys: (await loaded()).map(({ published }) => published) })
  }
}
