import { beforeEach, describe, expect, it } from '@jest/globals'
import type { ClientSession, DidAuthClient, Wallet } from 'express-did-auth-client'
import { alice, type ClientService, startClientService } from '../support/servers/client-service.js'
import { createNumberedWallet, createWatchedWallet } from '../support/fixtures/fixtures.js'
import { until } from '../support/fixtures/until.js'

let service: ClientService

beforeEach(async () => {
  service = await startClientService()
})

describe('two logins at once', () => {
  it('share one prompt and one session with the same wallet', async () => {
    const wallet = createWatchedWallet(alice)
    const auth = service.client({ wallet })
    const sessions = await Promise.all([auth.logIn(), auth.logIn(), auth.logIn()])
    expect([wallet.signed.length, service.count('/auth'), new Set(sessions).size]).toEqual([1, 1, 1])
    const [signedUp, again] = await Promise.all([auth.signUp(), auth.signUp()])
    expect([wallet.signed.length, signedUp]).toEqual([2, again])
  })

  it('are two with different wallets, texts or claims, and a failed one is not shared later', async () => {
    service = await startClientService({ siwe: true })
    const [one, two] = [createWatchedWallet(alice), createWatchedWallet(createNumberedWallet(2))]
    const auth = service.client()
    const aborted = auth.logIn({ wallet: one, signal: AbortSignal.abort(new Error('closed')) })
    await Promise.all([
      expect(aborted).rejects.toThrow('closed'),
      auth.logIn({ wallet: one }),
      auth.logIn({ wallet: two }),
      auth.logIn({ wallet: one })
    ])
    expect([one.signed.length, two.signed.length]).toEqual([1, 1])
    await Promise.all([auth.logIn({ wallet: one }), auth.logIn({ wallet: one, message: 'siwe' })])
    expect(one.signed).toHaveLength(3)
    const signUp = (claimValue: string) => auth.signUp({ wallet: two, claims: [{ claimType: 'name', claimValue }] })
    await Promise.all([signUp('Ada'), signUp('Bob'), signUp('Ada')])
    expect(service.exchanges.filter(({ path, status }) => path === '/signup' && status === 200)).toHaveLength(2)
    const failing = createWatchedWallet(alice, () =>
      failing.signed.length > 1 ? undefined : Promise.reject(Error('no'))
    )
    await expect(auth.logIn({ wallet: failing })).rejects.toMatchObject({ code: 'WALLET' })
    expect(await auth.logIn({ wallet: failing })).toMatchObject({ did: alice.did })
  })

  it.each<[string, (auth: DidAuthClient, wallet: Wallet, signal?: AbortSignal) => Promise<ClientSession>]>([
    ['logIn', (auth, wallet, signal) => auth.logIn({ wallet, signal })],
    ['logIn by EIP-4361', (auth, wallet, signal) => auth.logIn({ wallet, signal, message: 'siwe' })],
    ['siwe().logIn', async (auth, wallet, signal) => (await auth.siwe()).logIn({ wallet, signal })],
    ['signUp', (auth, wallet, signal) => auth.signUp({ wallet, signal })]
  ])('abort the wait of their own signal, and the login once both have (%s)', async (_name, enter) => {
    service = await startClientService({ siwe: true })
    let answer = (): void => undefined
    const wallet = createWatchedWallet(alice, () => new Promise<void>((resolve) => (answer = resolve)))
    const auth = service.client()
    const click = async () => {
      const controller = new AbortController()
      const entered = enter(auth, wallet, controller.signal)
      entered.catch(() => undefined)
      return { entered, close: (reason: string) => controller.abort(new Error(reason)) }
    }
    const [one, two] = [await click(), await click()]
    await until(() => wallet.signed.length === 1)
    one.close('first')
    await expect(one.entered).rejects.toThrow('first')
    answer()
    expect(await two.entered).toMatchObject({ did: alice.did })

    const [three, four] = [await click(), await click()]
    await until(() => wallet.signed.length === 2)
    three.close('third')
    four.close('fourth')
    await expect(three.entered).rejects.toThrow('third')
    await expect(four.entered).rejects.toThrow('fourth')
    const five = await click()
    await until(() => wallet.signed.length === 3)
    answer()
    await five.entered
    expect(service.exchanges.filter(({ path }) => /^\/(auth|signup|siwe\/verify)$/.test(path))).toHaveLength(2)
  })
})
