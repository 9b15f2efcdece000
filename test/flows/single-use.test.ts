import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { logIn, signUp } from '../../src/flows/log-in.js'
import { requestLoginChallenge, requestSignUpChallenge } from '../../src/flows/request-challenge.js'
import { client, createFlowParts } from './flow-parts.js'
import { createLoginText, createNumberedWallet } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const { did } = wallet

/** Sends a signature, over a new or an earlier challenge, to one of the two flows. */
const attempt = fc.record({
  challengeOf: fc.constantFrom('logIn', 'signUp'),
  thirdLine: fc.constantFrom('', '', '\n', '\nMy credentials are: '),
  captured: fc.option(fc.nat(20), { nil: undefined }),
  flow: fc.constantFrom('logIn', 'signUp'),
  copies: fc.integer({ min: 1, max: 3 }),
  secondsLater: fc.constantFrom(0, 0, 0, 120)
})

describe('one signature', () => {
  it('opens at most one session, in any order of logins and sign-ups, one by one or concurrently', async () => {
    let sessions = 0
    await fc.assert(
      fc.asyncProperty(fc.array(attempt, { minLength: 2, maxLength: 12 }), async (attempts) => {
        const parts = await createFlowParts()
        const signatures: string[] = []
        const opened = new Map<string, number>()
        for (const { challengeOf, thirdLine, captured, flow, copies, secondsLater } of attempts) {
          parts.clock.seconds += secondsLater
          const request = challengeOf === 'logIn' ? requestLoginChallenge : requestSignUpChallenge
          const { challenge } = await request(parts, did, { mountPath: '', client })
          const fresh = wallet.personalSign(createLoginText('service.example', challenge) + thirdLine)
          const sig = (captured === undefined ? undefined : signatures[captured]) ?? fresh
          signatures.push(sig)
          const send = () =>
            flow === 'logIn'
              ? logIn(parts, { client, did, sig })
              : signUp(parts, { client, did, sig, credentialJwts: [], claims: [] })
          const results = await Promise.allSettled(Array.from({ length: copies }, send))
          const good = results.filter(({ status }) => status === 'fulfilled').length
          opened.set(sig, (opened.get(sig) ?? 0) + good)
          sessions += good
        }
        expect(Math.max(...opened.values())).toBeLessThanOrEqual(1)
      }),
      { numRuns: 50 }
    )
    // Fails if the generator opened too few sessions.
    expect(sessions).toBeGreaterThan(50)
  })
})
