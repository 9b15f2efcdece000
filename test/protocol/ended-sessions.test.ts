import { describe, expect, it } from '@jest/globals'
import { parseEndedSessions, type EndedListExpectation } from '../../src/protocol/ended-sessions.js'
import { START_SECONDS as NOW } from '../support/fixtures/fixtures.js'
import { forgeJwt } from './forge-jwt.js'

const valid = { iss: 'did:web:a.example', aud: 'https://a.example', exp: NOW + 60, more: false, ended: [] }
const expectation = {
  issuers: [valid.iss],
  audience: valid.aud,
  nowSeconds: NOW,
  after: undefined,
  lastUntil: undefined
}

/** Whether a reader accepts a list with these times. */
function isAccepted(
  times: { after: number; until: number; exp?: number },
  expected: Partial<EndedListExpectation> = {}
): boolean {
  const header = { alg: 'ES256K', typ: 'ended-sessions+jwt' }
  const jwt = forgeJwt(header, { ...valid, ...times }, () => new Uint8Array(64).fill(1))
  return parseEndedSessions(jwt, { ...expectation, ...expected }) !== undefined
}

describe('parseEndedSessions', () => {
  it('accepts a list up to the second before its exp', () => {
    const times = { after: NOW - 660, until: NOW }
    expect([isAccepted({ ...times, exp: NOW + 1 }), isAccepted({ ...times, exp: NOW })]).toEqual([true, false])
  })

  it('accepts a list that begins exactly at the requested time, and none that begins later', () => {
    const beginsAt = (after: number) => isAccepted({ after, until: NOW }, { after: NOW - 100 })
    expect([beginsAt(NOW - 100), beginsAt(NOW - 99)]).toEqual([true, false])
  })

  it('accepts a first list of exactly the life of a resource token, and none that is shorter', () => {
    const beginsAt = (after: number) => isAccepted({ after, until: NOW })
    expect([beginsAt(NOW - 300), beginsAt(NOW - 299)]).toEqual([true, false])
  })

  it('accepts a list that ends in the second in which it begins, and none that ends before', () => {
    const endsAt = (until: number) => isAccepted({ after: NOW - 400, until })
    expect([endsAt(NOW - 400), endsAt(NOW - 401)]).toEqual([true, false])
  })

  it('accepts a list that ends 30 s before the last one, and none that ends earlier', () => {
    const endsAt = (until: number) => isAccepted({ after: NOW - 660, until }, { lastUntil: NOW })
    expect([endsAt(NOW - 30), endsAt(NOW - 31)]).toEqual([true, false])
  })

  it('compares with the current time if the last list ended in the future', () => {
    const endsAt = (until: number) => isAccepted({ after: NOW - 660, until }, { lastUntil: NOW + 600 })
    expect([endsAt(NOW), endsAt(NOW - 30), endsAt(NOW - 31)]).toEqual([true, true, false])
  })
})
