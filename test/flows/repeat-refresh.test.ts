import { beforeEach, describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { refreshTokens } from '../../src/flows/tokens.js'
import { refusal } from '../support/fixtures/refusal.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'
import { client, createFlowParts, createLoggedIn, decodePayload, type FlowParts } from './flow-parts.js'
import { sampled } from '../support/fixtures/time-factor.js'

const { did } = createNumberedWallet(1)
const KEY = 'k'.repeat(22)
const ANOTHER_KEY = 'a'.repeat(22)

type LoggedIn = Awaited<ReturnType<typeof createLoggedIn>>
let parts: FlowParts
let first: LoggedIn['tokens']

let refresh: LoggedIn['refresh']

async function begin(): Promise<void> {
  ;({ parts, tokens: first, refresh } = await createLoggedIn())
}

beforeEach(begin)

// Each test is a row of the design's table.
describe('refreshTokens with an idempotency key', () => {
  it('rotates the current token, and reports no repeat', async () => {
    const second = await refresh(first.refreshToken, KEY)
    expect(second.isRepeated).toBe(false)
    expect(second.refreshToken).toMatch(/^[A-Za-z0-9_-]{24}[.][A-Za-z0-9_-]{43}$/)
    await expect(refresh(second.refreshToken)).resolves.toHaveProperty('isRepeated', false)
  })

  it('returns the same refresh token and a new access token to a repeat, also a day later', async () => {
    const second = await refresh(first.refreshToken, KEY)
    parts.clock.seconds += 86_400
    const repeated = await refresh(first.refreshToken, KEY)
    expect(repeated.isRepeated).toBe(true)
    expect(repeated.refreshToken).toBe(second.refreshToken)
    expect(decodePayload(repeated.accessToken)).toMatchObject({
      iat: START_SECONDS + 86_400,
      exp: START_SECONDS + 87_000
    })
    expect(parts.warnings).toEqual([])
  })

  it('does not extend the session on a repeat', async () => {
    await refresh(first.refreshToken, KEY)
    parts.clock.seconds += 604_799
    const repeated = await refresh(first.refreshToken, KEY)
    expect(repeated.refreshTokenSeconds).toBe(1)
    parts.clock.seconds += 1
    await expect(refresh(first.refreshToken, KEY)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
  })

  it('refuses a repeat after its successor was used, and revokes nothing: a late duplicate', async () => {
    const second = await refresh(first.refreshToken, KEY)
    const third = await refresh(second.refreshToken, ANOTHER_KEY)
    parts.clock.seconds += 1_000
    await expect(refresh(first.refreshToken, KEY)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    await expect(refresh(third.refreshToken)).resolves.toHaveProperty('accessToken')
  })

  it.each([
    ['another key', ANOTHER_KEY],
    ['none', undefined]
  ])('refuses a repeat with %s within the grace period, and revokes the session after it', async (_name, key) => {
    const second = await refresh(first.refreshToken, KEY)
    parts.clock.seconds += 10
    await expect(refresh(first.refreshToken, key)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    parts.clock.seconds += 1
    await expect(refresh(first.refreshToken, key)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN_REUSED'))
    await expect(refresh(second.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
  })

  it('rotates once for 50 concurrent requests, which all get the same working successor', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => refresh(first.refreshToken, KEY)))
    expect(answers.filter(({ isRepeated }) => !isRepeated)).toHaveLength(1)
    const successors = new Set(answers.map(({ refreshToken }) => refreshToken))
    expect(successors.size).toBe(1)
    await expect(refresh([...successors][0])).resolves.toHaveProperty('accessToken')
  })

  it('has one winner among 50 concurrent requests with different keys', async () => {
    const keys = Array.from({ length: 50 }, (_, index) => `${'d'.repeat(20)}${String(index).padStart(2, '0')}`)
    const answers = await Promise.allSettled(keys.map((key) => refresh(first.refreshToken, key)))
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  it('refuses a repeat at a service with another secret', async () => {
    await refresh(first.refreshToken, KEY)
    const { store } = parts
    const other = { ...(await createFlowParts({ challengeSecret: 'another secret of the tests, 32 bytes' })), store }
    const again = refreshTokens(other, { refreshToken: first.refreshToken, idempotencyKey: KEY, client })
    await expect(again).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
  })
})

describe('a client that stores its token and its key', () => {
  /** Outcome of one request: lost before or after the service responded, delivered, or delivered again later. */
  const fate = fc.record({
    kind: fc.constantFrom('answered', 'lost on the way', 'answer lost', 'delivered twice', 'delivered late'),
    secondsLater: fc.constantFrom(0, 1, 11, 3_600)
  })

  it('is never logged out, and a second holder of its tokens is always detected', async () => {
    let refreshes = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(fate, { minLength: 3, maxLength: 25 }),
        fc.nat(24),
        fc.boolean(),
        async (fates, stolenAt, isStolen) => {
          await begin()
          const late: { token: string; key: string }[] = []
          let token = first.refreshToken
          let keys = 0
          let key: string | undefined
          let stolen: string | undefined
          for (const [index, { kind, secondsLater }] of fates.entries()) {
            parts.clock.seconds += secondsLater
            if (isStolen && index === stolenAt) stolen = token
            // The key is stored until a response has arrived.
            key ??= `key-of-refresh-number-${String((keys += 1)).padStart(4, '0')}`
            if (kind === 'lost on the way') continue
            const request = { token, key }
            const answer = await refresh(request.token, request.key)
            if (kind === 'answer lost') continue
            if (kind === 'delivered twice') {
              expect((await refresh(request.token, request.key)).refreshToken).toBe(answer.refreshToken)
            }
            if (kind === 'delivered late') late.push(request)
            token = answer.refreshToken
            key = undefined
            refreshes += 1
          }
          // Late duplicates of honest requests must not end the session.
          for (const { token: old, key: oldKey } of late) await refresh(old, oldKey).catch(() => undefined)
          const next = await refresh(token, key ?? 'key-of-the-last-refresh')
          if (stolen === undefined || stolen === token) return
          // The thief has a token that was replaced in the meantime, and no key.
          parts.clock.seconds += 11
          await refresh(stolen, undefined).catch(() => undefined)
          await expect(refresh(next.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
          expect(parts.events.at(-1)).toMatchObject({ type: 'refresh-token-reused', did })
        }
      ),
      { numRuns: sampled(12, 60) }
    )
    // Fails if the generator produced too few refreshes.
    expect(refreshes).toBeGreaterThan(sampled(5, 60))
  })
})
