import { describe, expect, it } from '@jest/globals'
import { EventLoopScheduler } from '../../src/adapters/event-loop-scheduler.js'
import { logIn } from '../../src/flows/log-in.js'
import type { Caller } from '../../src/flows/parts.js'
import { walletOf } from '../support/wallet.js'
import { client, flowParts, loginSig } from './flow-parts.js'

const from = (network: string, isGone = () => false): Caller => ({ ...client, network, isGone })

describe('bad proofs of one client network', () => {
  // Figure F19, small, in recoveries and not in time. Cause: tasks ran in the order of asking, so that 300 bad
  // proofs, of up to 24 recoveries each, stood before a login that came a moment later.
  it('300 at once hold 20 logins of other networks up by a few recoveries, and lock none of them out', async () => {
    const parts = { ...(await flowParts()), scheduler: new EventLoopScheduler() }
    const recoveries = (): number => parts.steps.filter((step) => step === 'recover').length
    const sig = walletOf(2).personalSign('anything')
    const refused = Array.from({ length: 300 }, (_, number) => {
      const did = `did:ethr:rsk:0x${String(number).padStart(40, '0')}`
      return logIn(parts, { client: from('192.0.2.1'), did, sig })
    })
    const wallets = Array.from({ length: 20 }, (_, number) => walletOf(100 + number))
    const signed = wallets.map((wallet) => ({ did: wallet.did, sig: loginSig(parts, wallet) }))
    const answered = Promise.allSettled(refused)
    const logins = await Promise.all(
      signed.map((one, number) => logIn(parts, { client: from(`198.51.100.${String(number)}`), ...one }))
    )
    expect(logins).toHaveLength(20)
    // One for each login. Of the bad proofs, with two recoveries each: two that came first, two scheduled between the logins,
    // and two explained in the one background round.
    expect(recoveries()).toBeLessThanOrEqual(20 + 2 * 6)
    expect((await answered).map(({ status }) => status)).toEqual(Array(300).fill('rejected'))
  })

  it('from clients that hung up cost no recovery', async () => {
    const parts = { ...(await flowParts()), scheduler: new EventLoopScheduler() }
    let isGone = false
    const sig = walletOf(2).personalSign('anything')
    const refused = Array.from({ length: 300 }, async () =>
      logIn(parts, { client: from('192.0.2.1', () => isGone), did: walletOf(1).did, sig })
    )
    isGone = true
    await Promise.allSettled(refused)
    expect(parts.steps.filter((step) => step === 'recover')).toEqual([])
  })
})
