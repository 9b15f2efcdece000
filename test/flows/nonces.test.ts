import { describe, expect, it } from '@jest/globals'
import { createHmac } from 'node:crypto'
import { consumeNonce, issueNonce, verifyNonce } from '../../src/flows/nonces.js'
import { refusal } from '../support/fixtures/refusal.js'
import { SERVICE_URL, createSiweParts } from './flow-parts.js'
import { challengeSecret, START_SECONDS } from '../support/fixtures/fixtures.js'

describe('the nonce of issueNonce', () => {
  it('contains the 10 s slot, 16 random bytes and 12 bytes of an HMAC over both, in hexadecimal', async () => {
    const { parts, siwe } = await createSiweParts()
    const { nonce, expiresInSeconds } = issueNonce(parts, siwe)
    expect([nonce.length, expiresInSeconds]).toEqual([64, 310])
    expect(nonce.slice(0, 8)).toBe((START_SECONDS / 10).toString(16).padStart(8, '0'))
    const key = createHmac('sha256', challengeSecret).update(`siwe-nonce\n${SERVICE_URL}`).digest()
    expect(nonce.slice(40)).toBe(createHmac('sha256', key).update(nonce.slice(0, 40)).digest('hex').slice(0, 24))
    const drawn = Array.from({ length: 100 }, () => issueNonce(parts, siwe).nonce)
    expect(new Set(drawn).size).toBe(100)
    expect(parts.steps).toEqual([])
  })

  it("expires 300 s after its slot, by the service's clock", async () => {
    const { parts, siwe } = await createSiweParts()
    parts.clock.seconds = START_SECONDS + 9
    const { nonce, expiresInSeconds } = issueNonce(parts, siwe)
    expect(expiresInSeconds).toBe(301)
    const end = { nonce, slot: START_SECONDS / 10, expiresAtSeconds: START_SECONDS + 310 }
    parts.clock.seconds = START_SECONDS + 309
    expect(verifyNonce(parts, siwe, nonce)).toEqual(end)
    parts.clock.seconds = START_SECONDS + 310
    expect(() => verifyNonce(parts, siwe, nonce)).toThrow(refusal('ERR_CHALLENGE_EXPIRED'))
    await expect(consumeNonce(parts, end)).rejects.toEqual(refusal('ERR_CHALLENGE_EXPIRED'))
    expect(parts.steps).toEqual([])
  })

  it('is refused with another service, another secret, or a changed digit', async () => {
    const { parts, siwe } = await createSiweParts()
    const { nonce } = issueNonce(parts, siwe)
    for (const other of [{ serviceUrl: 'https://other.example' }, { challengeSecret: 's'.repeat(32) }]) {
      const elsewhere = await createSiweParts(other)
      expect(() => verifyNonce(elsewhere.parts, elsewhere.siwe, nonce)).toThrow(refusal('ERR_CHALLENGE'))
    }
    const changed = Array.from(
      nonce,
      (digit, at) => nonce.slice(0, at) + (digit === '0' ? '1' : '0') + nonce.slice(at + 1)
    )
    for (const one of [...changed, nonce.toUpperCase(), nonce.slice(1), `${nonce}0`, 'abcdefgh']) {
      expect(() => verifyNonce(parts, siwe, one)).toThrow(refusal('ERR_CHALLENGE'))
    }
  })

  it.each(['single-use', 'window'] as const)('is valid once with replayProtection %s', async (replayProtection) => {
    const { parts, siwe } = await createSiweParts({ replayProtection })
    const known = verifyNonce(parts, siwe, issueNonce(parts, siwe).nonce)
    const results = await Promise.allSettled(Array.from({ length: 50 }, () => consumeNonce(parts, known)))
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    await expect(consumeNonce(parts, known)).rejects.toEqual(refusal('ERR_CHALLENGE_USED'))
  })
})
