import { describe, expect, it, jest } from '@jest/globals'
import { verifyMessage } from 'ethers/hash'
import { computeAddress } from 'ethers/transaction'
import { WalletError, wallet } from 'express-did-auth/testing'
import { toAccountDid } from '../../src/client/wallets/wallet.js'

const refusal = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => (error instanceof WalletError ? error.code : error)
  )

describe('wallet', () => {
  it('is the same for the same seed, and different for another', () => {
    expect(wallet('alice').did).toBe(wallet('alice').did)
    expect(wallet('alice').info).toEqual(wallet('alice').info)
    expect(wallet('bob').did).not.toBe(wallet('alice').did)
    expect(wallet('bob').info.uuid).not.toBe(wallet('alice').info.uuid)
  })

  it('returns the address of its key, in lower case, and a DID on Rootstock', async () => {
    const alice = wallet('alice')
    expect(alice.address).toBe(computeAddress(alice.privateKey).toLowerCase())
    expect(await alice.getAddress()).toBe(alice.address)
    expect(alice.did).toBe(`did:ethr:rsk:${alice.address}`)
  })

  it.each([
    [31, undefined, 'rsk:'],
    [31, 'rsk:testnet', 'rsk:testnet:'],
    [1, '', '']
  ])('on chain %d with network %p has the DID did:ethr:%s0x…, like a client', async (chainId, network, middle) => {
    const alice = wallet('alice', { chainId, network })
    expect(alice.did).toBe(`did:ethr:${middle}${alice.address}`)
    expect(alice.rejecting().did).toBe(alice.did)
    expect(await toAccountDid(alice, alice.address, network)).toBe(alice.did)
    expect(await alice.request({ method: 'eth_chainId' })).toBe(`0x${chainId.toString(16)}`)
  })

  it.each(['Login to a\nVerification code: b', '', 'ä €'])('signs %j as ethers verifies it', async (text) => {
    const alice = wallet('alice')
    expect(verifyMessage(text, await alice.signMessage(text)).toLowerCase()).toBe(alice.address)
  })
})

describe('wallet in a page', () => {
  it('shows its account after the page requested it', async () => {
    const alice = wallet('alice')
    expect(await alice.request({ method: 'eth_accounts' })).toEqual([])
    expect(await alice.request({ method: 'eth_requestAccounts' })).toEqual([alice.address])
    expect(await alice.request({ method: 'eth_accounts' })).toEqual([alice.address])
  })

  it('signs a text, plain or in hexadecimal, for the connected account', async () => {
    const alice = wallet('alice')
    const sign = (text: string): Promise<unknown> =>
      alice.request({ method: 'personal_sign', params: [text, alice.address.toUpperCase().replace('0X', '0x')] })
    expect(await refusal(sign('hello'))).toBe(4100)
    await alice.request({ method: 'eth_requestAccounts' })
    expect(await sign('hello')).toBe(await alice.signMessage('hello'))
    expect(await sign(`0x${Buffer.from('hello').toString('hex')}`)).toBe(await alice.signMessage('hello'))
  })

  it.each([
    ['another account', { method: 'personal_sign', params: ['hello', wallet('bob').address] }, 4100],
    ['no account', { method: 'personal_sign', params: ['hello'] }, -32602],
    ['no parameters', { method: 'personal_sign' }, -32602],
    ['a method that it does not have', { method: 'eth_sendTransaction', params: [{}] }, 4200]
  ])('refuses %s', async (_what, request, code) => {
    const alice = wallet('alice')
    await alice.request({ method: 'eth_requestAccounts' })
    expect(await refusal(alice.request(request))).toBe(code)
  })

  it('announces itself immediately, and again on request, until it is stopped', () => {
    const page = new EventTarget()
    const seen: unknown[] = []
    page.addEventListener('eip6963:announceProvider', (event) => seen.push((event as CustomEvent).detail))
    const alice = wallet('alice', { info: { name: 'Example Wallet' } })
    const stop = alice.announce(page)
    page.dispatchEvent(new Event('eip6963:requestProvider'))
    stop()
    page.dispatchEvent(new Event('eip6963:requestProvider'))
    const info = {
      name: 'Example Wallet',
      rdns: expect.stringMatching(/^example\.wallet-[0-9a-f]{8}$/),
      uuid: expect.stringMatching(/^[0-9a-f-]{36}$/)
    }
    expect(seen).toEqual([0, 1].map(() => ({ info: expect.objectContaining(info), provider: alice })))
  })

  it('reports to connected pages that its user switched accounts', async () => {
    const alice = wallet('alice')
    const seen: string[][] = []
    const listener = (accounts: string[]): void => {
      seen.push(accounts)
    }
    alice.on('accountsChanged', listener).on('chainChanged', listener)
    alice.switchAccount('first')
    await alice.request({ method: 'eth_requestAccounts' })
    alice.switchAccount()
    const second = alice.address
    alice.removeListener('accountsChanged', listener)
    alice.switchAccount('alice')
    expect(seen).toEqual([[second]])
    expect(alice.did).toBe(wallet('alice').did)
  })
})

describe('wallet that delays or refuses', () => {
  const ask = (signer: ReturnType<typeof wallet>): Promise<unknown>[] => [
    signer.signMessage('hello'),
    signer.request({ method: 'eth_requestAccounts' })
  ]

  it.each([
    ['whose user rejects', 4001, wallet('alice').rejecting()],
    ['that is busy', -32002, wallet('alice').busy()]
  ])('%s refuses with %d, and has the same account', async (_what, code, signer) => {
    for (const call of ask(signer)) expect(await refusal(call)).toBe(code)
    expect(signer.did).toBe(wallet('alice').did)
    expect(await wallet('alice').signMessage('hello')).toMatch(/^0x/)
  })

  it('waits for a slow user, and forever for one who never responds', async () => {
    jest.useFakeTimers()
    try {
      const done: string[] = []
      const note = (name: string, calls: Promise<unknown>[]): void => {
        for (const call of calls) void refusal(call).then((code) => done.push(`${name} ${String(code)}`))
      }
      note('slow', ask(wallet('alice').slow(5000)))
      note('slow and rejecting', ask(wallet('alice').slow(6000).rejecting()))
      note('never', ask(wallet('alice').slow(Infinity)))
      await jest.advanceTimersByTimeAsync(4999)
      expect(done).toEqual([])
      await jest.advanceTimersByTimeAsync(1)
      expect(done).toEqual(['slow undefined', 'slow undefined'])
      await jest.advanceTimersByTimeAsync(1_000_000)
      expect(done.slice(2)).toEqual(['slow and rejecting 4001', 'slow and rejecting 4001'])
    } finally {
      jest.useRealTimers()
    }
  })
})
