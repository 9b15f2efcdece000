import { describe, expect, it, jest } from '@jest/globals'
import { appKit, connectAndSignIn, connectKit, rainbowKit, thirdweb } from 'express-did-auth-client/siwe'
import { DidAuthClient } from 'express-did-auth-client'
import { parseSiweMessage } from 'viem/siwe'
import { catchFailure } from '../support/fixtures/client-error.js'
import {
  alice,
  requestStatus,
  type ClientService,
  setGlobals,
  startClientService
} from '../support/servers/client-service.js'
import { createNumberedWallet, createWatchedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const start = (): Promise<ClientService> => startClientService({ siwe: true })
const account = { address: alice.address, chainId: 8453 }
const problem = (status: number, code: string): Response =>
  new Response(JSON.stringify({ title: 'Words of it', code }), { status })

/** Signs like a wallet modal, with the nonce and text of the adapter. */
async function signBy(steps: {
  getNonce(): Promise<string>
  createMessage(fields: { address: string; chainId: number; nonce: string }): string
}): Promise<{ message: string; signature: string }> {
  const message = steps.createMessage({ ...account, nonce: await steps.getNonce() })
  return { message, signature: alice.personalSign(message) }
}

describe("DidAuthClient with message: 'siwe'", () => {
  it('signs an EIP-4361 message, and has the DID that the service returns', async () => {
    const service = await start()
    const wallet = { ...createWatchedWallet(alice), chainId: 8453 }
    const auth = service.client({ message: 'siwe', wallet, statement: 'Come in.' })
    expect(await auth.logIn()).toMatchObject({ did: alice.did })
    expect(parseSiweMessage(wallet.signed[0]!)).toEqual({
      domain: 'service.example',
      address: expect.stringMatching(new RegExp(`^${alice.address}$`, 'i')),
      statement: 'Come in.',
      uri: 'https://service.example',
      version: '1',
      chainId: 8453,
      nonce: expect.stringMatching(/^[0-9a-f]{64}$/),
      issuedAt: new Date(START_SECONDS * 1_000)
    })
    expect(service.paths()).toEqual(['/siwe/nonce', '/siwe/verify'])
    expect(await requestStatus(auth)).toBe(200)
  })

  // Test vectors of EIP-55.
  it.each([
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
    '0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb',
    '0x52908400098527886E0F7030069857D2E4169EE7',
    '0xde709f2102306220921060314715629080e2fb77'
  ])('writes %s with its checksum, whatever spelling the wallet uses', async (address) => {
    const siwe = await (await start()).client().siwe()
    for (const spelling of [address, address.toLowerCase(), `0x${address.slice(2).toUpperCase()}`])
      expect(siwe.fields({ ...account, address: spelling, nonce: 'x' })).toMatchObject({ address })
  })

  it.each([
    ['the URL of the service', { url: 'https://api.example/login/' }, 'https://api.example/login'],
    ['a relative URL of the service in full', { url: '/api' }, 'https://app.example:8443/api'],
    ['serviceUrl', { url: '/api', serviceUrl: 'https://api.example' }, 'https://api.example']
  ])('names the page as the domain, and as URI %s', async (_name, options, uri) => {
    setGlobals({ location: new URL('https://app.example:8443/shop') })
    const siwe = await new DidAuthClient(options).siwe()
    expect(siwe.fields({ ...account, nonce: 'x' })).toMatchObject({ domain: 'app.example:8443', uri })
  })

  it.each(['ab cd', `ab\nResources:`, 'a'.repeat(257), 'a\u2028b', ''])('never signs the nonce %j', async (nonce) => {
    const service = await start()
    service.intercept(() => Response.json({ nonce }))
    const wallet = createWatchedWallet(alice)
    const error = await catchFailure(service.client({ wallet, message: 'siwe' }).logIn())
    expect([error, wallet.signed]).toMatchObject([{ code: 'PROTOCOL' }, []])
  })

  it('sends only the signature after prepare(), and requests a new nonce once that has expired', async () => {
    const service = await start()
    const auth = service.client({ message: 'siwe' })
    await auth.prepare()
    await auth.logIn()
    expect(service.paths()).toEqual(['/siwe/nonce', '/siwe/verify'])
    await auth.prepare()
    service.clock.seconds += 400
    await auth.logIn()
    expect(service.count('/siwe/nonce')).toBe(3)
  })

  it('retries on its own if the nonce expired while the wallet prompt was open', async () => {
    const service = await start()
    const wallet = createWatchedWallet(alice, () => (service.clock.seconds += wallet.signed.length === 1 ? 400 : 0))
    const auth = service.client({ wallet })
    expect(await auth.logIn({ message: 'siwe' })).toMatchObject({ did: alice.did })
    expect(wallet.signed).toHaveLength(2)
  })

  it.each([
    [401, 'ERR_MESSAGE', 'CHALLENGE', 'try again'],
    [401, 'ERR_MESSAGE_DOMAIN', 'CROSS_ORIGIN', 'Contact its operator'],
    [401, 'ERR_NETWORK', 'REFUSED', 'Words of it'],
    [401, 'ERR_CONTRACT_ABSENT', 'REFUSED', 'Words of it'],
    [401, 'ERR_CONTRACT_SIGNATURE', 'REFUSED', 'Words of it'],
    [503, 'ERR_CHAIN', 'UNAVAILABLE', 'try again'],
    [404, 'ERR_NONE', 'PROTOCOL', 'Contact its operator']
  ])('reports for %i %s: %s', async (status, serverCode, code, advice) => {
    const service = await start()
    service.intercept(({ path }) => (path === '/siwe/verify' ? problem(status, serverCode) : undefined))
    const error = await catchFailure(service.client({ message: 'siwe' }).logIn())
    expect(error).toMatchObject({ code, serverCode, userMessage: expect.stringContaining(advice) })
  })
})

describe.each([
  ['rainbowKit', (auth: DidAuthClient) => rainbowKit(auth)],
  ['connectKit', (auth: DidAuthClient) => ({ ...connectKit(auth), verify: connectKit(auth).verifyMessage })]
])('%s', (_name, adapterOf) =>
  it('logs in and out', async () => {
    const service = await start()
    const auth = service.client()
    const adapter = adapterOf(auth)
    expect(await adapter.verify(await signBy(adapter))).toBe(true)
    expect(auth.session?.did).toBe(alice.did)
    await adapter.signOut()
    expect(auth.session).toBeUndefined()
  })
)

describe('rainbowKit', () =>
  it('requests a new nonce after a refusal, although the modal writes the old one', async () => {
    jest.spyOn(console, 'warn').mockImplementation(() => undefined)
    const service = await start()
    const adapter = rainbowKit(service.client())
    const nonce = await adapter.getNonce()
    const sign = (): { message: string; signature: string } => {
      const message = adapter.createMessage({ ...account, nonce })
      return { message, signature: alice.personalSign(message) }
    }
    const signing = sign()
    service.clock.seconds += 400
    expect(await adapter.verify(signing)).toBe(false)
    expect(await adapter.verify(sign())).toBe(true)
  }))

describe('connectKit', () =>
  it('returns account and chain of the session, and null without one', async () => {
    const service = await start()
    const config = connectKit(service.client())
    expect(await config.getSession()).toBeNull()
    await config.verifyMessage(await signBy(config))
    expect(await config.getSession()).toEqual({ address: alice.address.toLowerCase(), chainId: 8453 })
  }))

describe('appKit', () =>
  it('logs in, returns the session of its account on any chain, and signs out', async () => {
    const service = await start()
    const auth = service.client()
    const siwx = appKit(auth)
    const data = await siwx.createMessage({ accountAddress: alice.address, chainId: 'eip155:8453' })
    const message = data.toString()
    await siwx.addSession({ message, signature: alice.personalSign(message) })
    expect(await siwx.getSessions('eip155:1', alice.address)).toMatchObject([{ data: { chainId: 'eip155:1' } }])
    expect(await siwx.getSessions('eip155:1', createNumberedWallet(2).address)).toEqual([])
    await siwx.setSessions([])
    expect(auth.session).toBeUndefined()
    await expect(siwx.createMessage({ accountAddress: 'x', chainId: 'solana:1' })).rejects.toThrow('solana:1')
  }))

describe('thirdweb', () => {
  it('sends the text that thirdweb writes from the payload', async () => {
    const service = await start()
    const options = thirdweb(service.client())
    const payload = await options.getLoginPayload(account)
    // `createLoginMessage` of thirdweb joins the lines in this way.
    const text = `${payload.domain} wants you to sign in with your Ethereum account:\n${payload.address}\n\n${payload.statement}\n
URI: ${payload.uri}\nVersion: 1\nChain ID: 8453\nNonce: ${payload.nonce}\nIssued At: ${payload.issued_at}
Expiration Time: ${payload.expiration_time}`
    await options.doLogin({ payload, signature: alice.personalSign(text) })
    expect(await options.isLoggedIn(alice.address)).toBe(true)
    await options.doLogout()
    expect(await options.isLoggedIn(alice.address)).toBe(false)
  })

  it('logs out after the user picked another account', async () => {
    const service = await start()
    const auth = await service.signedIn()
    const options = thirdweb(auth)
    expect([await options.isLoggedIn(alice.address), auth.session?.did]).toEqual([true, alice.did])
    expect([await options.isLoggedIn(createNumberedWallet(2).address), auth.session]).toEqual([false, undefined])
    expect(await service.requireDid.sessions.list(alice.did)).toEqual([])
  })
})

/** Fields that an application passes to `wallet_connect`. */
type WantedText = { nonce: string; domain: string; uri: string }

/** Creates a wallet that responds to `wallet_connect` with this result, and signs. */
const createProvider = (answer: (request: WantedText) => unknown, calls: string[] = []) => ({
  request: async ({ method, params }: { method: string; params?: readonly unknown[] }): Promise<unknown> => {
    calls.push(method)
    if (method === 'eth_chainId') return '0x2105'
    if (method === 'eth_requestAccounts') return [alice.address]
    if (method === 'personal_sign')
      return alice.personalSign(Buffer.from(String(params![0]).slice(2), 'hex').toString())
    const [{ capabilities }] = params as [{ capabilities: { signInWithEthereum: WantedText } }]
    return answer(capabilities.signInWithEthereum)
  }
})

/** Returns the response of a wallet that writes the text from the given fields. */
function signWanted({ nonce, domain, uri }: WantedText): unknown {
  const message = `${domain} wants you to sign in with your Ethereum account:\n${alice.address}\n\n
URI: ${uri}\nVersion: 1\nChain ID: 8453\nNonce: ${nonce}\nIssued At: ${new Date(START_SECONDS * 1_000).toISOString()}`
  const signInWithEthereum = { message, signature: alice.personalSign(message) }
  return { accounts: [{ address: alice.address, capabilities: { signInWithEthereum } }] }
}

describe('connectAndSignIn', () => {
  it('logs in with one prompt', async () => {
    const service = await start()
    const calls: string[] = []
    expect(await connectAndSignIn(service.client(), createProvider(signWanted, calls))).toMatchObject({
      did: alice.did
    })
    expect(calls).toEqual(['eth_chainId', 'wallet_connect'])
  })

  it('shares one prompt between two clicks, and prompts again afterwards', async () => {
    const service = await start()
    const calls: string[] = []
    const [auth, provider] = [service.client(), createProvider(signWanted, calls)]
    const [one, two] = await Promise.all([connectAndSignIn(auth, provider), connectAndSignIn(auth, provider)])
    expect(one).toBe(two)
    expect(calls).toEqual(['eth_chainId', 'wallet_connect'])
    expect(await connectAndSignIn(auth, provider)).not.toBe(one)
  })

  it.each(['https://app.example/shop', 'https://service.example.evil', 'none'])(
    'retries with the text from the service if the wallet writes the URI %s',
    async (uri) => {
      const service = await start()
      const provider = createProvider((request) => signWanted({ ...request, uri }))
      expect(await connectAndSignIn(service.client(), provider)).toMatchObject({ did: alice.did })
      const sent = service.exchanges.filter(({ path }) => path === '/siwe/verify').map(({ body }) => body)
      expect(sent).toEqual([expect.stringContaining('URI: https://service.example\\n')])
    }
  )

  it.each([4200, -32601])('prompts twice if the wallet returns error %i', async (code) => {
    const service = await start()
    const calls: string[] = []
    const provider = createProvider(() => Promise.reject(Object.assign(new Error('none'), { code })), calls)
    expect(await connectAndSignIn(service.client(), provider)).toMatchObject({ did: alice.did })
    expect(calls.slice(2)).toEqual(['eth_requestAccounts', 'eth_chainId', 'personal_sign'])
  })

  it('does not prompt again after the user declined', async () => {
    const service = await start()
    const provider = createProvider(() => Promise.reject(Object.assign(new Error('no'), { code: 4001 })))
    expect(await catchFailure(connectAndSignIn(service.client(), provider))).toMatchObject({ code: 'USER_REJECTED' })
  })
})

describe('a dishonest service that shares its page with another service', () => {
  /** Signs in like a page with thirdweb, with the text of the adapter. */
  const byThirdweb = async (auth: DidAuthClient): Promise<unknown> => {
    const options = thirdweb(auth)
    return options.doLogin({ payload: await options.getLoginPayload(account), signature: '0x' })
  }
  const byAppKit = async (auth: DidAuthClient): Promise<unknown> => {
    const siwx = appKit(auth)
    const data = await siwx.createMessage({ accountAddress: alice.address, chainId: 'eip155:1' })
    return siwx.addSession({ message: data.toString(), signature: alice.personalSign(data.toString()) })
  }
  it.each<[string, (auth: DidAuthClient) => Promise<unknown>]>([
    ['logIn', (auth) => auth.logIn({ message: 'siwe' })],
    ['rainbowKit', async (auth) => rainbowKit(auth).verify(await signBy(rainbowKit(auth)))],
    ['connectKit', async (auth) => connectKit(auth).verifyMessage(await signBy(connectKit(auth)))],
    ['appKit', byAppKit],
    ['thirdweb', byThirdweb],
    ['connectAndSignIn', (auth) => connectAndSignIn(auth, createProvider(signWanted))]
  ])('gets a text by %s that the other service refuses, for a nonce of the other service', async (_name, logIn) => {
    jest.spyOn(console, 'warn').mockImplementation(() => undefined)
    const trustedOrigins = ['https://app.example']
    const [dishonest, other] = [await start(), await startClientService({ siwe: true, trustedOrigins })]
    setGlobals({ location: new URL('https://app.example/shop') })
    const post = (path: string, body?: string): Promise<Response> =>
      fetch(other.url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: body ?? null })
    dishonest.intercept(({ path }) => (path === '/siwe/nonce' ? post(path) : undefined))
    await logIn(dishonest.client({ domain: undefined, serviceUrl: undefined })).catch(() => undefined)
    const { body } = dishonest.exchanges.find(({ path }) => path === '/siwe/verify')!
    const answer = await post('/siwe/verify', body)
    expect([answer.status, await answer.text()]).toEqual([401, 'Sign-in message for another site'])
  })
})
