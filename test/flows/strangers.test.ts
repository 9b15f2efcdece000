import { describe, expect, it } from '@jest/globals'
import { EventLoopScheduler } from '../../src/adapters/concurrency-limiter.js'
import { DidAuthError } from '../../src/errors.js'
import { logIn } from '../../src/flows/log-in.js'
import type { Caller } from '../../src/flows/limits.js'
import { refusal } from '../support/fixtures/refusal.js'
import { client, createFlowParts, signLogin, type FlowParts } from './flow-parts.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const from = (network: string, isGone = () => false): Caller => ({ ...client, network, isGone })

describe('invalid proofs of one client network', () => {
  // Small version of figure F19, measured in recoveries instead of time. Cause: tasks ran in order of arrival, so that
  // 300 invalid proofs, of up to 24 recoveries each, were queued before a login that arrived a moment later.
  it('delay 20 logins of other networks by only a few recoveries, and lock out none of them', async () => {
    const parts = { ...(await createFlowParts()), scheduler: new EventLoopScheduler() }
    const recoveries = (): number => parts.steps.filter((step) => step === 'recover').length
    const sig = createNumberedWallet(2).personalSign('anything')
    const refused = Array.from({ length: 300 }, (_, number) => {
      const did = `did:ethr:rsk:0x${String(number).padStart(40, '0')}`
      return logIn(parts, { client: from('192.0.2.1'), did, sig })
    })
    const wallets = Array.from({ length: 20 }, (_, number) => createNumberedWallet(100 + number))
    const signed = wallets.map((wallet) => ({ did: wallet.did, sig: signLogin(parts, wallet) }))
    const answered = Promise.allSettled(refused)
    const logins = await Promise.all(
      signed.map((one, number) => logIn(parts, { client: from(`198.51.100.${String(number)}`), ...one }))
    )
    expect(logins).toHaveLength(20)
    // One per login. The invalid proofs need two recoveries each: two that came first, two scheduled between the
    // logins, and two explained in the one background round.
    expect(recoveries()).toBeLessThanOrEqual(20 + 2 * 6)
    expect((await answered).map(({ status }) => status)).toEqual(Array(300).fill('rejected'))
  })

  it('cost no recovery after their clients disconnected', async () => {
    const parts = { ...(await createFlowParts()), scheduler: new EventLoopScheduler() }
    let isGone = false
    const sig = createNumberedWallet(2).personalSign('anything')
    const refused = Array.from({ length: 300 }, async () =>
      logIn(parts, { client: from('192.0.2.1', () => isGone), did: createNumberedWallet(1).did, sig })
    )
    isGone = true
    await Promise.allSettled(refused)
    expect(parts.steps.filter((step) => step === 'recover')).toEqual([])
  })
})

describe('a refused signature while too many wait for their turn', () => {
  const wallet = createNumberedWallet(1)
  const { did } = wallet
  const login = (parts: FlowParts, useCount = 0) =>
    logIn(parts, { client, did, sig: signLogin(parts, wallet, { useCount }) })

  /** Returns parts after some logins, with so many waiting that one more is refused a background turn. */
  async function busyAfter(logins: number, loginDomains: string[] = []): Promise<FlowParts> {
    const parts = await createFlowParts({ loginDomains })
    for (let useCount = 0; useCount < logins; useCount += 1) await login(parts, useCount)
    parts.steps.length = 0
    parts.scheduler.yield = (_client, priority) =>
      priority === 'background' ? Promise.reject(new DidAuthError('ERR_BUSY')) : Promise.resolve()
    return parts
  }

  // Cause: recoveries that only distinguish two refusals delayed waiting users.
  it.each([
    ['a login with 2 domains', [], 2],
    ['a login with 6 domains', ['a.example', 'b.example', 'c.example', 'd.example'], 6]
  ])('costs only the recoveries of its own challenge: %s', async (_name, domains, recoveries) => {
    const parts = await busyAfter(5, domains)
    const sig = createNumberedWallet(2).personalSign('anything')
    await expect(logIn(parts, { client, did, sig })).rejects.toEqual(refusal('ERR_CHALLENGE'))
    expect(parts.steps.filter((step) => step === 'recover')).toHaveLength(recoveries)
  })

  it('gets the plain refusal, neither used nor expired', async () => {
    const parts = await busyAfter(1)
    await expect(login(parts)).rejects.toEqual(refusal('ERR_CHALLENGE'))
    parts.clock.seconds = START_SECONDS + 300
    await expect(login(parts)).rejects.toEqual(refusal('ERR_CHALLENGE'))
  })

  it('does not affect a valid signature', async () => {
    const parts = await busyAfter(1)
    await expect(login(parts, 1)).resolves.toHaveProperty('accessToken')
  })
})
