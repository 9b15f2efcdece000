import { describe, expect, it } from '@jest/globals'
import type { DidAuthConfig } from '../../src/config/options.js'
import { DidAuthError } from '../../src/errors.js'
import { logIn, signUp } from '../../src/flows/log-in.js'
import { refusal } from '../support/refusal.js'
import { walletOf } from '../support/wallet.js'
import { client, flowParts, loginSig, START_SECONDS, type FlowParts } from './flow-parts.js'

const wallet = walletOf(1)
const { did } = wallet
const DOMAINS = ['a.example', 'b.example', 'c.example', 'd.example']

const login = (parts: FlowParts, useCount = 0) =>
  logIn(parts, { client, did, sig: loginSig(parts, wallet, { useCount }) })
const recoveriesOf = ({ steps }: FlowParts): number => steps.filter((step) => step === 'recover').length

/** As while so many wait that one more is refused a background turn. */
function fillBackground(parts: FlowParts): void {
  parts.scheduler.yield = (_client, priority) =>
    priority === 'background' ? Promise.reject(new DidAuthError('ERR_BUSY')) : Promise.resolve()
}

async function afterLogins(
  count: number,
  domains: string[] = [],
  config: Partial<DidAuthConfig> = {}
): Promise<FlowParts> {
  const parts = await flowParts({ loginDomains: domains, ...config })
  for (let useCount = 0; useCount < count; useCount += 1) await login(parts, useCount)
  parts.steps.length = 0
  return parts
}

describe('a refused signature', () => {
  it.each([
    ['a login with 6 domains', DOMAINS, async (parts: FlowParts, sig: string) => logIn(parts, { client, did, sig })],
    [
      'a sign up with 6 domains',
      DOMAINS,
      async (parts: FlowParts, sig: string) => signUp(parts, { client, did, sig, credentialJwts: [], claims: [] })
    ],
    ['a login with 2 domains', [], async (parts: FlowParts, sig: string) => logIn(parts, { client, did, sig })]
  ])('costs at most 24 recoveries in all: %s', async (_name, domains, send) => {
    for (const loginDialects of [['login'], ['login', 'url']] as const) {
      const parts = await afterLogins(15, domains, { loginDialects })
      await expect(send(parts, walletOf(2).personalSign('anything'))).rejects.toEqual(refusal('ERR_CHALLENGE'))
      expect(recoveriesOf(parts)).toBeLessThanOrEqual(24)
      expect(recoveriesOf(parts)).toBeGreaterThan(12)
    }
  })
})

describe('a refused signature while too many wait for their turn', () => {
  // Cause: recoveries that only tell two refusals apart held up those who wait.
  it.each([
    ['a login with 2 domains', [], 2],
    ['a login with 6 domains', DOMAINS, 6]
  ])('costs the recoveries of its own challenge alone: %s', async (_name, domains, recoveries) => {
    const parts = await afterLogins(5, domains)
    fillBackground(parts)
    const sig = walletOf(2).personalSign('anything')
    await expect(logIn(parts, { client, did, sig })).rejects.toEqual(refusal('ERR_CHALLENGE'))
    expect(recoveriesOf(parts)).toBe(recoveries)
  })

  it('is told neither used nor expired', async () => {
    const parts = await afterLogins(1)
    fillBackground(parts)
    await expect(login(parts)).rejects.toEqual(refusal('ERR_CHALLENGE'))
    parts.clock.seconds = START_SECONDS + 300
    await expect(login(parts)).rejects.toEqual(refusal('ERR_CHALLENGE'))
  })

  it('does not change that a good one is good', async () => {
    const parts = await afterLogins(1)
    fillBackground(parts)
    await expect(login(parts, 1)).resolves.toHaveProperty('accessToken')
  })
})
