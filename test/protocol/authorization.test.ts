import { describe, expect, it } from '@jest/globals'
import { hasTokenScheme, readHeaderToken } from '../../src/protocol/authorization.js'
import { refusal } from '../support/fixtures/refusal.js'

const BOTH = ['DIDAuth', 'Bearer'] as const

describe('readHeaderToken', () => {
  it.each([
    [undefined, undefined],
    ['', undefined],
    ['DIDAuth a.b-c', 'a.b-c'],
    ['bearer   a', 'a']
  ])('reads %j', (header, token) => expect(readHeaderToken(header, BOTH)).toBe(token))

  it.each(['DIDAuth', 'DIDAuth ', 'didauth a b', 'Bearer,a', 'Bearer'])('refuses %j', (header) => {
    expect(hasTokenScheme(header, BOTH)).toBe(true)
    expect(() => readHeaderToken(header, BOTH)).toThrow(refusal('ERR_ACCESS_TOKEN'))
  })

  const token = `${'a'.repeat(20)}.${'b'.repeat(43)}`
  it.each([
    ['Basic eDp5', 'Basic'],
    ['AWS4-HMAC-SHA256 Credential=a', 'AWS4-HMAC-SHA256'],
    ['Bearer2 a', 'Bearer2'],
    // A token without scheme must not reach the log.
    [token, 'another scheme'],
    [`${token} a`, 'another scheme'],
    ['"DIDAuth a', 'another scheme'],
    [' DIDAuth a', 'another scheme']
  ])('takes %j for no token, and names only the scheme', (header, got) => {
    expect(hasTokenScheme(header, BOTH)).toBe(false)
    const reason = { check: 'Authorization', expected: 'DIDAuth <token> or Bearer <token>', got }
    expect(() => readHeaderToken(header, BOTH)).toThrow(
      expect.objectContaining({ code: 'ERR_ACCESS_TOKEN_MISSING', reason })
    )
  })
})
