import { describe, expect, it } from '@jest/globals'
import { DidAuthError, errorTexts, type DidAuthErrorCode } from '../../src/errors.js'
import {
  assertProofBudget,
  charge,
  chargeMachine,
  chargeRefusal,
  chargeUser,
  type Caller
} from '../../src/flows/limits.js'
import { logIn, signUp } from '../../src/flows/log-in.js'
import { refusal } from '../support/fixtures/refusal.js'
import { client, createFlowParts, signLogin } from './flow-parts.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const { did } = wallet
const spelled = `did:ethr:rsk:${wallet.address}`
const ipv6: Caller = {
  ...client,
  network: '2001:db8:1:2::/64',
  networks: [
    { network: '2001:db8:1:2::/64', factor: 1 },
    { network: '2001:db8:1::/48', factor: 16 }
  ]
}
const tooMany = (): Promise<never> => Promise.reject(new DidAuthError('ERR_TOO_MANY_REQUESTS'))

/** Codes of refusals by the budget that they count against. */
const unproved: DidAuthErrorCode[] = [
  'ERR_SIGNATURE',
  'ERR_CHALLENGE',
  'ERR_MESSAGE',
  'ERR_MESSAGE_DOMAIN',
  'ERR_CREDENTIAL',
  'ERR_CREDENTIAL_EXPIRED',
  'ERR_CREDENTIAL_ISSUER',
  'ERR_NETWORK',
  'ERR_CONTRACT_ABSENT',
  'ERR_CONTRACT_SIGNATURE',
  'ERR_APPROVAL',
  'ERR_CHAIN',
  'ERR_CLIENT_ASSERTION',
  'ERR_RESOLVER'
]
const outdated: DidAuthErrorCode[] = [
  'ERR_CHALLENGE_EXPIRED',
  'ERR_CHALLENGE_USED',
  'ERR_DISCLOSURE_MISSING',
  'ERR_CREDENTIAL_REVOKED',
  'ERR_CREDENTIAL_STATUS',
  'ERR_DEVICE_PROOF',
  'ERR_DEVICE_NONCE'
]
const others = (Object.keys(errorTexts) as DidAuthErrorCode[]).filter(
  (code) => !unproved.includes(code) && !outdated.includes(code)
)

describe('the quota of a user', () => {
  it('allows 20 requests, and another 20 that a foreign page makes a browser send', async () => {
    const parts = await createFlowParts()
    await chargeUser(parts, did, false)
    await chargeUser(parts, did, true)
    expect(parts.charges).toEqual([
      [did, 20],
      [`${did} foreign`, 20]
    ])
  })
})

describe('the budget of requests that name a DID', () => {
  it('is ten times the quota per DID, in any spelling, and network; 16 times that per site', async () => {
    const parts = await createFlowParts()
    await charge(parts, client, 'didRequests', spelled)
    await charge(parts, ipv6, 'didRequests', did)
    expect(parts.charges).toEqual([
      [`didRequests ${did} 192.0.2.1`, 200],
      [`didRequests ${did} 2001:db8:1:2::/64`, 200],
      [`didRequests ${did} 2001:db8:1::/48`, 3_200]
    ])
  })

  it('is not charged to a site if one of its networks is refused', async () => {
    const parts = await createFlowParts()
    const names: string[] = []
    parts.quotas.charge = (_store, { name }) => {
      names.push(name)
      return tooMany()
    }
    await expect(charge(parts, ipv6, 'didRequests', did)).rejects.toEqual(refusal('ERR_TOO_MANY_REQUESTS'))
    expect(names).toEqual([`didRequests ${did} 2001:db8:1:2::/64`])
  })
})

describe('the budgets of proofs and logins of a client network', () => {
  it.each([
    [false, ['failedProofs 192.0.2.1', 'logins 192.0.2.1']],
    [true, ['failedProofs 192.0.2.1']]
  ])('are checked before a proof; if an unknown proxy hides the users (%j), %j', async (isShared, names) => {
    const parts = await createFlowParts()
    const asked: string[] = []
    parts.quotas.assertLeft = ({ name }) => void asked.push(name)
    assertProofBudget(parts, { ...client, isShared })
    expect(asked).toEqual(names)
    expect(parts.charges).toEqual([])
  })

  it.each([
    ...unproved.map((code) => [code, ['failedProofs 192.0.2.1', `didRequests ${did} 192.0.2.1`]] as const),
    ...outdated.map((code) => [code, ['failedProofs 192.0.2.1']] as const)
  ])('count a proof refused with %s, and report it: %j', async (code, names) => {
    const parts = await createFlowParts()
    await chargeRefusal(parts, { did: spelled, client }, new DidAuthError(code))
    expect(parts.charges.map(([name]) => name)).toEqual(names)
    expect(parts.charges[0]![1]).toBe(2_000)
    expect(parts.events).toEqual([{ type: 'proof-refused', did: spelled, code, clientNetwork: '192.0.2.1' }])
  })

  it.each([...others.map((code) => new DidAuthError(code)), new Error('a fault')])(
    'count nothing for %s',
    async (error) => {
      const parts = await createFlowParts()
      await chargeRefusal(parts, { did, client }, error)
      expect([parts.charges, parts.events]).toEqual([[], []])
    }
  )

  it('count a refusal before the DID is known only for the client network', async () => {
    const parts = await createFlowParts()
    await chargeRefusal(parts, { client }, new DidAuthError('ERR_MESSAGE'))
    expect(parts.charges).toEqual([['failedProofs 192.0.2.1', 2_000]])
    expect(parts.events).toEqual([{ type: 'proof-refused', code: 'ERR_MESSAGE', clientNetwork: '192.0.2.1' }])
  })

  it('count nonces separately: 50 times the quota, and none if an unknown proxy hides the users', async () => {
    const parts = await createFlowParts()
    await charge(parts, client, 'nonces')
    await charge(parts, { ...client, isShared: true }, 'nonces')
    expect(parts.charges).toEqual([['nonces 192.0.2.1', 1_000]])
  })

  it('count a valid login and sign-up only as logins: 50 times the quota', async () => {
    const parts = await createFlowParts()
    await logIn(parts, { client, did, sig: signLogin(parts, wallet) })
    const sig = signLogin(parts, wallet, { useCount: 1 })
    await signUp(parts, { client, did, sig, credentialJwts: [], claims: [] })
    await logIn(parts, { client: { ...client, isShared: true }, did, sig: signLogin(parts, wallet, { useCount: 2 }) })
    expect(parts.charges).toEqual([
      ['logins 192.0.2.1', 1_000],
      ['logins 192.0.2.1', 1_000]
    ])
  })

  it.each<[string, Partial<Caller>, string]>([
    ['a known network', {}, 'logins 192.0.2.1'],
    ['a network that an unknown proxy hides', { isShared: true }, 'machines 192.0.2.1'],
    ['an unknown network', { isUnknown: true }, 'machines 192.0.2.1']
  ])('count machines of %s, so that fresh DIDs fill no store and users can log in', async (_what, caller, name) => {
    const parts = await createFlowParts()
    await chargeMachine(parts, { ...client, ...caller })
    expect(parts.charges).toEqual([[name, 1_000]])
  })

  it('refuse a valid login if they are used up, and do not consume its challenge', async () => {
    const parts = await createFlowParts()
    parts.quotas.charge = tooMany
    await expect(logIn(parts, { client, did, sig: signLogin(parts, wallet) })).rejects.toEqual(
      refusal('ERR_TOO_MANY_REQUESTS')
    )
    expect(parts.steps).not.toContain('consumeChallenge')
  })

  it('refuse an invalid proof with the error of the store that fails to count it', async () => {
    const parts = await createFlowParts()
    parts.quotas.charge = () => Promise.reject(new DidAuthError('ERR_STORE'))
    const sig = createNumberedWallet(2).personalSign('anything')
    await expect(logIn(parts, { client, did, sig })).rejects.toEqual(refusal('ERR_STORE'))
  })
})
