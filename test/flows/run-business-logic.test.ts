import { describe, expect, it } from '@jest/globals'
import { runBusinessLogic } from '../../src/flows/run-business-logic.js'
import { DidAuthError } from '../../src/errors.js'
import { catchCode, refusal, createThrowing } from '../support/fixtures/refusal.js'
import { createFlowParts } from './flow-parts.js'

const parts = await createFlowParts()
const run = (logic: () => unknown) => runBusinessLogic(parts, logic)

describe('business logic that lets the user in', () =>
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['true', true],
    ['0', 0],
    ['the empty string', ''],
    ['a record of its own', { id: 7 }],
    ['an array', [1]],
    ['no claims', { tokenClaims: undefined }],
    ['null for its claims', { tokenClaims: null }]
  ])('may return %s and add no claims', async (_name, value) => {
    expect(await run(() => value)).toBeUndefined()
    expect(await run(async () => value)).toBeUndefined()
  }))

describe('business logic that refuses', () => {
  it('returns exactly false, with the text Refused', async () => {
    await expect(run(() => false)).rejects.toMatchObject({ code: 'ERR_BUSINESS_LOGIC', message: 'Refused' })
    await expect(run(async () => false)).rejects.toEqual(refusal('ERR_BUSINESS_LOGIC'))
  })

  it('throws or rejects with its own message', async () => {
    const error = new Error('account is blocked')
    const expected = { code: 'ERR_BUSINESS_LOGIC', message: 'account is blocked', cause: error }
    await expect(run(createThrowing(error))).rejects.toMatchObject(expected)
    await expect(run(() => Promise.reject(error))).rejects.toMatchObject(expected)
  })

  it.each([
    ['a string', 'account is blocked', 'account is blocked'],
    ['an object with a message', { message: 'blocked' }, 'blocked'],
    ['an object without', {}, 'Refused'],
    ['a message that is no string', { message: 5 }, 'Refused'],
    ['an error without message', new Error(''), 'Refused'],
    ['nothing', undefined, 'Refused'],
    ['null', null, 'Refused'],
    ['a number', 5, 'Refused'],
    ['control characters', new Error('a\r\nSet-Cookie: b\0\x7f\u0085\u2028c'), 'a Set-Cookie: b c'],
    ['200 characters', new Error('x'.repeat(200)), 'x'.repeat(200)],
    ['201 characters', new Error('x'.repeat(201)), 'x'.repeat(200)]
  ])('throws %s', (_name, thrown, message) =>
    expect(run(createThrowing(thrown))).rejects.toMatchObject({ code: 'ERR_BUSINESS_LOGIC', message })
  )

  // Cause: every error with a code caused 500, including errors of the application and of APIs that it calls.
  it.each([
    ['a word', 'FORBIDDEN'],
    ['a word of another API', 'resource_missing'],
    ['five letters', 'ADMIN'],
    ['four digits', '4031'],
    ['a text that contains ERR_', 'MY_ERR_BANNED'],
    ['a number', 403],
    ['five digits, as a number', 42501],
    ['words that begin as errors of the system do', 'EXPIRED'],
    ['a word that begins as one of DNS does', 'EAISY']
  ])('throws an error with a code of its own: %s', async (_name, code) => {
    const thrown = Object.assign(new Error('Not on the list'), { code })
    await expect(run(createThrowing(thrown))).rejects.toMatchObject({
      code: 'ERR_BUSINESS_LOGIC',
      message: 'Not on the list'
    })
  })

  it('throws an object whose message cannot be read', async () => {
    const thrown = {
      get message(): string {
        throw new Error('no words')
      }
    }
    await expect(run(createThrowing(thrown))).rejects.toMatchObject({ code: 'ERR_BUSINESS_LOGIC', message: 'Refused' })
  })

  it.each([
    ['an error', createThrowing(new Error('No entry,\nBob')), 'No entry, Bob', 'ERR_BUSINESS_LOGIC'],
    ['false', (): boolean => false, 'Refused', 'ERR_BUSINESS_LOGIC'],
    ['a DidAuthError', createThrowing(new DidAuthError('ERR_SESSION_ENDED')), 'Session ended', 'ERR_SESSION_ENDED']
  ] as const)('is logged as one info line without a stack: %s', async (_name, logic, text, code) => {
    const parts = await createFlowParts()
    await expect(runBusinessLogic(parts, logic)).rejects.toMatchObject({ code })
    expect([parts.infos, parts.warnings]).toEqual([[{ event: 'business-logic-refused', code, text }], []])
  })

  it('refuses a refresh only with false or a DidAuthError: every other error is a failure', async () => {
    const ask = (logic: () => unknown) => catchCode(runBusinessLogic(parts, logic, 'explicit'))
    const forbidden = Object.assign(new Error('Not on the list'), { code: 'FORBIDDEN' })
    const logics = [
      () => false,
      createThrowing(new DidAuthError('ERR_DID')),
      createThrowing(forbidden),
      createThrowing('closed')
    ]
    expect(await Promise.all(logics.map(ask))).toEqual([
      'ERR_BUSINESS_LOGIC',
      'ERR_DID',
      'ERR_INTERNAL',
      'ERR_INTERNAL'
    ])
  })
})

describe('business logic that fails', () => {
  it.each([
    ['a TypeError', new TypeError('x is undefined')],
    ['a RangeError', new RangeError('too long')],
    ['an error of the system', Object.assign(new Error('connect'), { code: 'ECONNREFUSED', syscall: 'connect' })],
    ['an error with a number of the system', Object.assign(new Error('gone'), { errno: -2 })],
    // Clients such as axios and ioredis set only the code.
    ...['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EPIPE', 'ENOTFOUND', 'EAI_AGAIN'].map((code): [string, unknown] => [
      `an error with the code ${code} only`,
      Object.assign(new Error('no'), { code })
    ]),
    ['an error of Node', Object.assign(new Error('socket'), { code: 'ERR_SOCKET_CLOSED' })],
    ['an error of PostgreSQL', Object.assign(new Error('unique'), { code: '23505' })],
    // A refusal in refreshBusinessLogic would revoke the session.
    ['a time-out of fetch', new DOMException('timed out', 'TimeoutError')],
    ['an error of SQLite', Object.assign(new Error('busy'), { code: 'SQLITE_BUSY' })],
    ['an error of PostgreSQL, with letters', Object.assign(new Error('table'), { code: '42P01' })]
  ])('is an internal error and not a refusal: %s', async (_name, thrown) => {
    const parts = await createFlowParts()
    const failed = runBusinessLogic(parts, createThrowing(thrown))
    await expect(failed).rejects.toMatchObject({ code: 'ERR_INTERNAL', message: 'Internal error', cause: thrown })
    expect([parts.infos, parts.warnings]).toEqual([
      [],
      [{ event: 'business-logic-threw', cause: expect.objectContaining({ stack: expect.any(String) }) }]
    ])
  })

  it('keeps the status and text of a DidAuthError that it throws', async () => {
    const thrown = new DidAuthError('ERR_STORE')
    await expect(run(createThrowing(thrown))).rejects.toBe(thrown)
  })
})

describe('business logic that hangs', () =>
  it('times out after 10 s', async () => {
    const slow = await createFlowParts()
    slow.expiredDeadlines.add(10)
    const never = () => new Promise(() => undefined)
    await expect(runBusinessLogic(slow, never)).rejects.toEqual(refusal('ERR_BUSINESS_LOGIC_TIMEOUT'))
  }))

describe('tokenClaims', () => {
  it('are serialized as JSON', async () => {
    const tokenClaims = { role: 'admin', since: new Date(0), gone: undefined, levels: [1, null, { a: true }] }
    expect(await run(() => ({ tokenClaims }))).toEqual({
      role: 'admin',
      since: '1970-01-01T00:00:00.000Z',
      levels: [1, null, { a: true }]
    })
  })

  it('are a copy: later changes by business logic have no effect', async () => {
    const tokenClaims = { roles: ['user'] }
    const claims = await run(() => ({ tokenClaims }))
    tokenClaims.roles.push('admin')
    expect(claims).toEqual({ roles: ['user'] })
  })

  it('omit reserved claims', async () => {
    const reserved = { iss: 'x', aud: 'x', sub: 'x', exp: 1, nbf: 1, iat: 1, jti: 'x', sid: 'x', use: 'x' }
    const kinds = { vc: {}, vp: {}, type: 'sdr' }
    expect(await run(() => ({ tokenClaims: { ...reserved, ...kinds, role: 'a' } }))).toEqual({ role: 'a' })
    expect(await run(() => ({ tokenClaims: reserved }))).toEqual({})
    expect(await run(() => ({ tokenClaims: {} }))).toEqual({})
  })

  it('omit __proto__, own or not', async () => {
    const tokenClaims: unknown = JSON.parse('{"__proto__":{"admin":true},"role":"a"}')
    const claims = await run(() => ({ tokenClaims }))
    expect(Object.keys(claims!)).toEqual(['role'])
    expect(claims!.admin).toBeUndefined()
  })

  it('may take 1024 bytes of JSON and not 1025', async () => {
    const createClaims = (bytes: number) => ({ tokenClaims: { a: 'x'.repeat(bytes - '{"a":""}'.length) } })
    expect(await run(() => createClaims(1024))).toEqual({ a: 'x'.repeat(1016) })
    await expect(run(() => createClaims(1025))).rejects.toBeInstanceOf(TypeError)
  })

  it('are counted in bytes of UTF-8, not in characters', async () => {
    await expect(run(() => ({ tokenClaims: { a: 'ü'.repeat(509) } }))).rejects.toBeInstanceOf(TypeError)
    expect(await run(() => ({ tokenClaims: { a: 'ü'.repeat(508) } }))).toEqual({ a: 'ü'.repeat(508) })
  })

  const cyclic: Record<string, unknown> = {}
  cyclic.self = cyclic
  it.each([
    ['a string', 'role=admin'],
    ['a number', 5],
    ['an array', ['admin']],
    ['a function', () => ({})],
    ['a date, which JSON makes a string of', new Date(0)],
    ['an object that JSON makes null of', { toJSON: () => null }],
    ['an object that JSON makes nothing of', { toJSON: () => undefined }],
    ['a bigint inside', { a: 1n }],
    ['a cycle', cyclic]
  ])('are a fault of the application, not of the user, if they are %s', (_name, tokenClaims) =>
    expect(run(() => ({ tokenClaims }))).rejects.toBeInstanceOf(TypeError)
  )
})
