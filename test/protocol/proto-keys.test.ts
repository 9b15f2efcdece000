import { describe, expect, it } from '@jest/globals'
import { parseCredential } from '../../src/protocol/credential.js'
import { dropProtoKeys } from '../../src/protocol/json.js'
import { createCredentialPayload, es256kBy } from '../support/fixtures/credentials.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const user = createNumberedWallet(1)
const issuer = createNumberedWallet(6201)

/** Creates a credential with this JSON text as payload, because JSON.stringify would lose `__proto__` keys. */
function createJwt(payload: string): string {
  const header = Buffer.from('{"alg":"ES256K"}').toString('base64url')
  const signingInput = `${header}.${Buffer.from(payload).toString('base64url')}`
  return `${signingInput}.${Buffer.from(es256kBy(issuer.privateKey)(signingInput)).toString('base64url')}`
}

const evil = '{"isAdmin":true}'

/** A valid payload with `__proto__` keys on four levels, one of them spelled with an escape. */
const polluted = JSON.stringify(createCredentialPayload(issuer.did, user.did))
  .replace('{"iss"', `{"__proto__":${evil},"iss"`)
  .replace('"vc":{', `"vc":{"__proto__":${evil},`)
  .replace(
    '"credentialSubject":{',
    `"credentialSubject":{"\\u005f_proto__":${evil},"address":{"__proto__":${evil},"city":"Vienna"},` +
      `"list":[{"__proto__":${evil},"n":1}],`
  )

describe('parseCredential', () => {
  const { credential } = parseCredential(createJwt(polluted), user.did, START_SECONDS)

  it('gives business logic no own __proto__ key at any level', () => {
    expect(JSON.stringify(credential)).not.toContain('isAdmin')
    expect(credential.credentialSubject).toEqual({
      id: user.did,
      email: 'alice@example.org',
      address: { city: 'Vienna' },
      list: [{ n: 1 }]
    })
  })

  it('returns an object that assignment copies without another prototype', () => {
    const { credentialSubject, vc } = credential
    const address = credentialSubject.address as object
    for (const copy of [Object.assign({}, credentialSubject), Object.assign({}, vc), Object.assign({}, address)]) {
      expect(Object.getPrototypeOf(copy)).toBe(Object.prototype)
      expect((copy as { isAdmin?: unknown }).isAdmin).toBeUndefined()
    }
  })

  it('reads the subject after removing these keys', () => {
    const hidden = JSON.stringify({ ...createCredentialPayload(issuer.did, user.did), sub: undefined }).replace(
      '"credentialSubject":{"id":',
      '"credentialSubject":{"__proto__":{"id":"did:a:b"},"name":'
    )
    expect(parseCredential(createJwt(hidden), user.did, START_SECONDS).credential.subject).toBeUndefined()
  })
})

describe('dropProtoKeys', () => {
  it('leaves everything else unchanged, including keys with similar names', () => {
    const value: unknown = JSON.parse('{"_proto_":1,"constructor":{"prototype":2},"proto":[null,1,"__proto__",{}]}')
    dropProtoKeys(value)
    expect(JSON.stringify(value)).toBe('{"_proto_":1,"constructor":{"prototype":2},"proto":[null,1,"__proto__",{}]}')
  })

  it('handles 10,000 levels', () => {
    const value: unknown = JSON.parse(`${'{"a":'.repeat(10_000)}{"__proto__":1,"b":2}${'}'.repeat(10_000)}`)
    dropProtoKeys(value)
    let bottom = value as { a?: object }
    while (bottom.a !== undefined) bottom = bottom.a
    expect(Object.keys(bottom)).toEqual(['b'])
  })

  it.each([null, undefined, 5, '__proto__', []])('accepts %j', (value) =>
    expect(() => dropProtoKeys(value)).not.toThrow()
  )
})
