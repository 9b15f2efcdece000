import { beforeEach, describe, expect, it } from '@jest/globals'
import type { DidAuthClient } from 'express-did-auth-client'
import { createPasskey } from 'express-did-auth-client/passkey'
import { wallet as testWallet, type TestWallet } from 'express-did-auth/testing'
import {
  alice,
  type ClientService,
  CookieJar,
  fakeClientTime,
  createPlainWallet,
  setGlobals,
  setPage,
  createSharedStorage,
  startClientService
} from '../support/servers/client-service.js'
import { until } from '../support/fixtures/until.js'

let service: ClientService
let ada: TestWallet
let storage: ReturnType<typeof createSharedStorage>
let page: EventTarget

const start = async (useCookies: boolean): Promise<void> => {
  service = await startClientService(
    { siwe: true, useCookies },
    {
      after: (app, requireDid) =>
        app.post(
          '/pay',
          requireDid.approved(() => 'Pay 5 RBTC'),
          (_req, res) => res.send()
        )
    }
  )
}

beforeEach(async () => {
  await start(false)
  ada = testWallet('ada')
  storage = createSharedStorage()
  page = setPage()
})

/** Opens a page after a reload: only the storage remains. */
const openPage = (options = {}): DidAuthClient => service.client({ wallet: undefined, storage, ...options })
const pay = async (auth: DidAuthClient): Promise<number> =>
  (await auth.fetch('/pay', { method: 'POST', approve: true })).status

describe('the wallet of a restored session', () => {
  it.each(['header', 'cookie'] as const)(
    'approves requests, and signs out with its account, in mode %s',
    async (mode) => {
      await start(mode === 'cookie')
      setGlobals({ window: {} })
      const options = mode === 'cookie' && { mode, fetch: new CookieJar().wrap(service.fetch) }
      ada.announce(page)
      await openPage(options).logIn({ wallet: ada })
      const auth = openPage(options)
      await auth.ready
      expect(await pay(auth)).toBe(200)
      service.clock.seconds += 700
      expect(await pay(openPage(options))).toBe(200)
      ada.switchAccount()
      await until(() => auth.session === undefined)
    }
  )

  it('is found if it announces itself late, and is the wallet of the login', async () => {
    const [end, other] = [ada.announce(page), testWallet('bob')]
    await openPage().logIn({ wallet: ada })
    end()
    other.announce(page)
    setGlobals({ ethereum: other })
    const auth = openPage()
    await auth.ready
    expect(await pay(auth)).toBe(403)
    ada.announce(page)
    expect(await pay(auth)).toBe(200)
  })

  it('is window.ethereum if the user logged in with that', async () => {
    setGlobals({ ethereum: ada })
    await openPage().logIn()
    const auth = openPage()
    await auth.ready
    ada.switchAccount()
    await until(() => auth.session === undefined)
  })

  it('can be a passkey, which prompts for each signature', async () => {
    // The key of the first prompt is wiped immediately, so that each signature prompts.
    fakeClientTime(60_000)
    const credentialRequests: { id: ArrayBuffer }[][] = []
    const rawId = Uint8Array.from([1, 2, 250]).buffer
    const answer = (allowed: { id: ArrayBuffer }[] = []) => {
      credentialRequests.push(allowed)
      const first = new Uint8Array(32).fill(7).buffer
      return { rawId, getClientExtensionResults: () => ({ prf: { results: { first } } }) }
    }
    type Asked = { publicKey: { allowCredentials: { id: ArrayBuffer }[] } }
    const credentials = {
      create: async () => answer(),
      get: async ({ publicKey }: Asked) => answer(publicKey.allowCredentials)
    }
    setGlobals({ navigator: { credentials }, PublicKeyCredential: {} })
    await openPage().logIn({ wallet: await createPasskey({ rpId: 'app.example', userName: 'Ada' }) })
    const auth = openPage()
    await auth.ready
    expect([await pay(auth), await pay(auth)]).toEqual([200, 200])
    expect(credentialRequests).toEqual([[], ...Array(3).fill([expect.objectContaining({ id: rawId })])])
  })

  it('must be given by useWallet if it has no id, and is not searched if the client has one', async () => {
    await openPage().logIn({ wallet: createPlainWallet(alice) })
    const auth = openPage()
    await expect(pay(auth)).rejects.toMatchObject({ code: 'NO_WALLET' })
    auth.useWallet(createPlainWallet(alice))
    expect(await pay(auth)).toBe(200)
    expect(await pay(openPage({ wallet: createPlainWallet(alice) }))).toBe(200)
  })
})

describe('DidAuthClient.useWallet', () =>
  it.each(['signOut', 'ignore'] as const)('watches the account of the wallet: %s', async (onAccountChange) => {
    const { address } = ada
    await openPage().logIn({ wallet: { address, signMessage: (text: string) => ada.signMessage(text) } })
    const auth = openPage({ onAccountChange })
    await auth.ready
    auth.useWallet(ada)
    await ada.request({ method: 'eth_requestAccounts' })
    ada.switchAccount()
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(auth.session === undefined).toBe(onAccountChange === 'signOut')
  }))
