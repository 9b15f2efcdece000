import { describe, expect, it } from '@jest/globals'
import { findMissing, parseClaims } from '../../src/protocol/selective-disclosure.js'
import { refusal } from '../support/fixtures/refusal.js'

describe('parseClaims', () => {
  it.each<[string, unknown]>([
    ['null', null],
    ['an object', {}],
    ['text', 'name'],
    ['a list of text', ['name']],
    ['a claim without value', [{ claimType: 'name' }]],
    ['a claim with a number', [{ claimType: 'age', claimValue: 5 }]],
    ['a reason that is a number', [{ claimType: 'a', claimValue: 'b', reason: 5 }]],
    ['essential that is text', [{ claimType: 'a', claimValue: 'b', essential: 'yes' }]],
    ['51 claims', Array(51).fill({ claimType: 'a', claimValue: 'b' })],
    ['a value of 4097 characters', [{ claimType: 'a', claimValue: 'x'.repeat(4097) }]]
  ])('refuses %s', (_name, claims) => expect(() => parseClaims(claims)).toThrow(refusal('ERR_REQUEST')))

  it('accepts 50 claims of 4096 characters, or none', () => {
    const claims = Array<object>(50).fill({ claimType: 'a', claimValue: 'x'.repeat(4096) })
    expect(parseClaims(claims)).toEqual(claims)
    expect(parseClaims(undefined)).toEqual([])
  })

  it('keeps the four fields of a claim and drops others', () => {
    const claim = { claimType: 'a', claimValue: 'b', reason: 'c', essential: true }
    expect(parseClaims([{ ...claim, admin: true }])).toEqual([claim])
  })
})

describe('findMissing', () => {
  const missingWith = (credentialSchema: unknown): string[] => {
    const credential = { jwt: '', issuer: '', subject: undefined, type: ['Email'], credentialSubject: {} }
    const credentials = [{ ...credential, expiresAtSeconds: undefined, vc: { credentialSchema } }]
    return findMissing({ claims: [], credentials }, { credentials: ['Passport', 'Email'], claims: [] }).credentials
  }

  it.each([
    ['the only segment', { id: 'Passport' }],
    ['the last segment', { id: 'https://schemas.example/v1/Passport', type: 'JsonSchema' }],
    ['one of several', [{ id: 'https://schemas.example/v1/Email' }, { id: 'https://schemas.example/v1/Passport' }]]
  ])('finds a schema that is %s of credentialSchema.id or the type', (_name, schema) =>
    expect(missingWith(schema)).toEqual([])
  )

  it.each([
    ['another case', { id: 'https://schemas.example/passport' }],
    ['a segment before the last', { id: 'https://schemas.example/Passport/v1' }],
    ['a part of a segment', { id: 'https://schemas.example/MyPassport' }],
    ['no id', { type: 'Passport' }],
    ['an id that is a number', { id: 5 }],
    ['text', 'https://schemas.example/Passport'],
    ['null', null]
  ])('reports a missing schema if credentialSchema is %s', (_name, schema) =>
    expect(missingWith(schema)).toEqual(['Passport'])
  )
})
