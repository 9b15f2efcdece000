import { describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { VerifiedCredential } from '../../src/protocol/credential.js'
import { isSecureUrl } from '../../src/protocol/parse-url.js'
import { assertStatus, parseStatusEntries, parseStatusList } from '../../src/protocol/status-list.js'
import type { StatusEntry } from '../../src/protocol/status-list.js'
import { es256kBy, jwtByHand } from '../support/fixtures/credentials.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'
import { refusal } from '../support/fixtures/refusal.js'
import { createStatusEntry, encodeBits, signStatusList, type ListChanges } from '../support/fixtures/status-lists.js'

const issuer = createNumberedWallet(6201)
const url = 'https://issuer.example/lists/1'
const file = new URL('../vectors/status-lists.json', import.meta.url)
const published = JSON.parse(readFileSync(file, 'utf8')) as {
  set: number[]
  unset: number[]
  vectors: { entryType: string; credential: { type: string[]; credentialSubject: Record<string, string> } }[]
}

const createCredential = (credentialStatus: unknown): VerifiedCredential => ({
  jwt: '',
  issuer: issuer.did,
  subject: undefined,
  type: [],
  credentialSubject: {},
  expiresAtSeconds: undefined,
  vc: { credentialStatus }
})
const parse = (...statuses: unknown[]): StatusEntry[] => parseStatusEntries(statuses.map(createCredential), isSecureUrl)
const [entry] = parse(createStatusEntry(url)) as [StatusEntry]

describe('parseStatusEntries', () => {
  it('returns none for a credential without status', () => expect(parse(undefined, [])).toEqual([]))

  it('returns one entry, or several of several credentials', () => {
    expect(parse(createStatusEntry(url))).toEqual([
      { issuer: issuer.did, type: 'BitstringStatusListEntry', purpose: 'revocation', url, index: 5 }
    ])
    const others = { type: 'StatusList2021Entry', statusPurpose: 'suspension', statusSize: 1, statusListIndex: '0' }
    const entries = parse([createStatusEntry(url), createStatusEntry(url, others)], createStatusEntry(url))
    expect(entries.map(({ type, purpose, index }) => [type, purpose, index])).toEqual([
      ['BitstringStatusListEntry', 'revocation', 5],
      ['StatusList2021Entry', 'suspension', 0],
      ['BitstringStatusListEntry', 'revocation', 5]
    ])
  })

  it('skips entries of other purposes, whatever else they contain', () => {
    const refresh = createStatusEntry(url, { statusPurpose: 'refresh', statusListIndex: undefined })
    const message = createStatusEntry('ftp://a.example', { statusPurpose: 'message', statusSize: 2 })
    expect(parse([refresh, createStatusEntry(url), message])).toEqual([entry])
    expect(parse(refresh, message)).toEqual([])
  })

  it.each(['Revocation', ' revocation', 'revoked', 'suspended', 'SUSPENSION'])(
    'refuses the purpose %j, which may be misspelt',
    (statusPurpose) => expect(() => parse(createStatusEntry(url, { statusPurpose }))).toThrow(refusal('ERR_CREDENTIAL'))
  )

  const fields = ['type', 'statusListIndex', 'statusListCredential']
  const values = [undefined, null, '', 5, true, {}, 'Other', '-1', '1.5', '0x5', ' 5', '05', '123456789', '/list']
  const changes = fields.flatMap((name) => {
    const { [name]: valid } = createStatusEntry(url) as Record<string, unknown>
    return [...values, [valid], [valid, valid]].map((value) => [name, value] as const)
  })
  it.each([
    ...changes,
    ...[2, 0, -1, '1', null, [1]].map((size) => ['statusSize', size] as const),
    ...[undefined, null, '', 5, true, {}, ['revocation']].map((value) => ['statusPurpose', value] as const),
    ['statusListCredential', 'http://issuer.example/lists/1'],
    ['statusListCredential', 'ftp://issuer.example/lists/1']
  ])('refuses an entry whose %s is %j', (name, value) =>
    expect(() => parse(createStatusEntry(url, { [name]: value }))).toThrow(refusal('ERR_CREDENTIAL'))
  )

  it.each([null, 'revoked', 1, true, [null], [[createStatusEntry(url)]], [createStatusEntry(url), 'x']])(
    'refuses the status %j',
    (status) => expect(() => parse(status)).toThrow(refusal('ERR_CREDENTIAL'))
  )

  it('accepts 4 entries per credential and 20 lists', () => {
    const four = Array.from({ length: 4 }, (_, at) => createStatusEntry(`${url}/${at}`))
    expect(parse(four)).toHaveLength(4)
    expect(() => parse([...four, createStatusEntry(url)])).toThrow(refusal('ERR_CREDENTIAL'))
    const twenty = Array.from({ length: 20 }, (_, at) => createStatusEntry(`${url}/${at}`))
    expect(parse(...twenty, twenty[0], four)).toHaveLength(25)
    expect(() => parse(...twenty, createStatusEntry(url))).toThrow(refusal('ERR_CREDENTIAL'))
  })
})

const parseList = (jwt: string, by = entry) => parseStatusList(jwt, by, START_SECONDS)

describe('parseStatusList and assertStatus', () => {
  it.each(published.vectors)('read a list of a published library: $entryType, $credential.type', (vector) => {
    const { entryType: type, credential } = vector
    const { statusPurpose: purpose = '' } = credential.credentialSubject
    const { did } = issuer
    // Both forms of the data model: claims in `vc`, or at the top.
    for (const payload of [
      { iss: did, sub: url, vc: credential },
      { ...credential, issuer: did }
    ]) {
      const jwt = jwtByHand({ alg: 'ES256K', typ: 'vc+jwt' }, payload, es256kBy(issuer.privateKey))
      const { gzip, ...list } = parseList(jwt, { ...entry, type })
      const bits = gunzipSync(gzip)
      const check = (index: number) => () => assertStatus({ ...list, bits }, { ...entry, type, purpose, index })
      for (const index of published.set) expect(check(index)).toThrow(refusal('ERR_CREDENTIAL_REVOKED'))
      for (const index of published.unset) expect(check(index)).not.toThrow()
      expect(check(131_072)).toThrow(refusal('ERR_CREDENTIAL'))
    }
  })

  // Source: W3C Bitstring Status List v1.0, section 2.2, and StatusList2021, section 4.2.
  it.each([
    ['BitstringStatusList', 'u'],
    ['StatusList2021', '']
  ])('read the empty %s of the specification', (name, prefix) => {
    const encodedList = `${prefix}H4sIAAAAAAAAA-3BMQEAAADCoPVPbQwfoAAAAAAAAAAAAAAAAAAAAIC3AYbSVKsAQAAA`
    const credentialSubject = { type: name, statusPurpose: 'revocation', encodedList }
    const vc = { type: ['VerifiableCredential', `${name}Credential`], credentialSubject }
    const { gzip } = parseList(signStatusList(issuer, [], { vc }), { ...entry, type: `${name}Entry` })
    expect(gunzipSync(gzip)).toEqual(Buffer.alloc(16_384))
  })

  it('accept base64 with both alphabets and padding in a list of 2021', () => {
    const encode = (encoding: 'base64' | 'base64url'): string =>
      Buffer.from(encodeBits([9]).slice(1), 'base64url').toString(encoding)
    for (const encodedList of [encode('base64'), encode('base64url')]) {
      const credentialSubject = { type: 'StatusList2021', statusPurpose: 'revocation', encodedList }
      const vc = { type: ['VerifiableCredential', 'StatusList2021Credential'], credentialSubject }
      const { gzip } = parseList(signStatusList(issuer, [], { vc }), { ...entry, type: 'StatusList2021Entry' })
      expect(gunzipSync(gzip)[1]).toBe(0x40)
    }
  })

  const valid: [string, ListChanges][] = [
    ['no typ', { header: { typ: undefined } }],
    ['typ vc+jwt', { header: { typ: 'vc+jwt' } }],
    ['typ statuslist+jwt', { header: { typ: 'statuslist+jwt' } }],
    ['URLs as subjects', { claims: { sub: url }, subject: { id: `${url}#list` } }],
    ['its id', { vc: { id: url } }],
    ['an issuer with an id', { vc: { issuer: { id: issuer.did, name: 'Issuer' } } }],
    ['the issuer only in vc', { claims: { iss: undefined }, vc: { issuer: issuer.did } }],
    ['another spelling of the issuer', { claims: { iss: issuer.did.replace('0x', '0X') } }],
    ['several purposes', { subject: { statusPurpose: ['message', 'revocation'] } }],
    ['a start in the tolerance', { claims: { nbf: START_SECONDS + 5 } }]
  ]
  it.each(valid)('accept a list with %s', (_name, changes) => {
    const { gzip, ...list } = parseList(signStatusList(issuer, [6], changes))
    expect(() => assertStatus({ ...list, bits: gunzipSync(gzip) }, entry)).not.toThrow()
  })

  const other = createNumberedWallet(6202).did
  const invalid: [string, ListChanges][] = [
    ['typ of a login', { header: { typ: 'at+jwt' } }],
    ['a typ of another type', { header: { typ: ['JWT'] } }],
    ['alg none', { header: { alg: 'none' } }],
    ['a critical header', { header: { crit: ['exp'] } }],
    ['a key in the header', { header: { jwk: {} } }],
    ['no issuer', { claims: { iss: undefined } }],
    ['another issuer', { claims: { iss: other } }],
    ['another issuer in vc', { vc: { issuer: other } }],
    ['an issuer of another type', { claims: { iss: [issuer.did] } }],
    ['a sub that is no URL', { claims: { sub: 'list' } }],
    ['a subject of another type', { subject: { id: 5 } }],
    ['another id', { vc: { id: `${url}/2` } }],
    ['an id of another type', { vc: { id: null } }],
    ['vc of another type', { claims: { vc: [] } }],
    ['vc that is null', { claims: { vc: null } }],
    ['no subject', { vc: { credentialSubject: undefined } }],
    ['two subjects', { vc: { credentialSubject: [{}, {}] } }],
    ['no type', { vc: { type: undefined } }],
    ['type of any credential', { vc: { type: ['VerifiableCredential'] } }],
    ['type without VerifiableCredential', { vc: { type: 'BitstringStatusListCredential' } }],
    ['type of 2021', { vc: { type: ['VerifiableCredential', 'StatusList2021Credential'] } }],
    ['another type of the subject', { subject: { type: 'StatusList2021' } }],
    ['a doubled type of the subject', { subject: { type: ['BitstringStatusList', 'BitstringStatusList'] } }],
    ['no bits', { subject: { encodedList: undefined } }],
    ['bits of another type', { subject: { encodedList: ['u'] } }],
    ['bits without prefix', { subject: { encodedList: encodeBits([]).slice(1) } }],
    ['bits of another base', { subject: { encodedList: `m${encodeBits([]).slice(1)}` } }],
    ['bits that are no base64', { subject: { encodedList: 'u*' } }],
    ['ttl as text', { subject: { ttl: '300000' } }],
    ['a negative ttl', { subject: { ttl: -1 } }],
    ['ttl that is null', { subject: { ttl: null } }],
    ['a start in the future', { vc: { validFrom: '2100-01-01T00:00:00Z' } }],
    ['a date of another form', { vc: { validUntil: 2_000_000_000 } }]
  ]
  it.each(invalid)('refuse a list with %s', (_name, changes) =>
    expect(() => parseList(signStatusList(issuer, [], changes))).toThrow(refusal('ERR_CREDENTIAL'))
  )

  it.each<[string, ListChanges]>([
    ['exp', { claims: { exp: START_SECONDS } }],
    ['validUntil', { vc: { validUntil: '2020-01-01T00:00:00Z' } }],
    ['expirationDate', { vc: { expirationDate: '2020-01-01T00:00:00Z' } }]
  ])('refuse a list that has ended by %s', (_name, changes) =>
    expect(() => parseList(signStatusList(issuer, [], changes))).toThrow(refusal('ERR_CREDENTIAL_EXPIRED'))
  )

  it.each(['', 'a.b', '<!doctype html>', 'a.b.c'])('refuse %j', (text) =>
    expect(() => parseList(text)).toThrow(refusal('ERR_CREDENTIAL'))
  )

  it.each([undefined, 'suspension', ['suspension'], null, { 0: 'revocation' }])(
    'refuse a list for the purpose %j as unavailable',
    (statusPurpose) => {
      const { gzip, ...list } = parseList(signStatusList(issuer, [], { subject: { statusPurpose } }))
      expect(() => assertStatus({ ...list, bits: gunzipSync(gzip) }, entry)).toThrow(refusal('ERR_CREDENTIAL_STATUS'))
    }
  )

  it.each<[number, ListChanges]>([
    [300, {}],
    [60, { subject: { ttl: 60_000 } }],
    [30, { subject: { ttl: 0 } }],
    [300, { subject: { ttl: 86_400_000 } }],
    [90, { claims: { exp: START_SECONDS + 90 } }],
    [30, { claims: { exp: START_SECONDS + 1 } }],
    [40, { subject: { ttl: 40_000 }, claims: { exp: START_SECONDS + 90 } }]
  ])('allow to cache a list for %s s: %j', (seconds, changes) =>
    expect(parseList(signStatusList(issuer, [], changes)).cacheSeconds).toBe(seconds)
  )
})
