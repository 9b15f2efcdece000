import { describe, expect, it, jest } from '@jest/globals'
import { BrowserProvider, Wallet as EthersWallet, verifyMessage } from 'ethers'
import { findWallets, type Eip1193Provider, type Wallet } from 'express-did-auth-client'
import { wallet as testWallet } from 'express-did-auth/testing'
import { createClient, createWalletClient, custom } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { connectWallet, toAccountDid } from '../../src/client/wallets/wallet.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { alice, createPlainWallet, setGlobals, setPage, startClientService } from '../support/servers/client-service.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

/** Creates a browser wallet that accepts messages as hexadecimal bytes. */
function provider(
  answers: Partial<Record<'eth_requestAccounts' | 'eth_accounts' | 'eth_chainId' | 'personal_sign', unknown>> = {}
): Eip1193Provider & { methods: string[]; change: (accounts: unknown) => void } {
  const methods: string[] = []
  let listener: (accounts: never) => void = () => undefined
  return {
    methods,
    change: (accounts) => listener(accounts as never),
    on: (_event, added) => void (listener = added),
    async request({ method, params = [] }) {
      methods.push(method)
      if (method in answers) {
        const answer = answers[method as 'personal_sign']
        // Wallets throw objects that are not errors.
        // eslint-disable-next-line @typescript-eslint/only-throw-error
        if (answer instanceof Error || (typeof answer === 'object' && answer !== null && 'code' in answer)) throw answer
        return answer
      }
      if (method === 'eth_requestAccounts' || method === 'eth_accounts') return [alice.address]
      if (method === 'eth_chainId') return '0x1e'
      const [message, address] = params as [string, string]
      expect(address.toLowerCase()).toBe(alice.address.toLowerCase())
      return alice.personalSign(Buffer.from(message.slice(2), 'hex').toString())
    }
  }
}

describe('DidAuthClient.logIn', () => {
  it.each<[string, () => Wallet | Promise<Wallet>, string]>([
    ['a browser wallet', () => provider(), alice.did],
    ['a wallet of ethers', () => new EthersWallet(alice.privateKey), alice.did],
    ['an account of viem', () => privateKeyToAccount(alice.privateKey as '0x'), alice.did],
    ['a plain wallet', () => createPlainWallet(alice), alice.did],
    ['a signer of ethers in a page', () => new BrowserProvider(provider()).getSigner(), alice.did],
    ['a browser wallet on another chain', () => provider({ eth_chainId: '0x1' }), alice.did],
    ['a plain wallet on another chain', () => createPlainWallet(alice, 31), alice.did]
  ])('works with %s', async (_name, wallet, did) => {
    const service = await startClientService()
    const auth = service.client({ wallet: undefined })
    expect(await auth.logIn({ wallet: await wallet() })).toMatchObject({ did })
    expect((await auth.fetch('/me')).status).toBe(200)
  })

  it('uses the account of a viem wallet client, not the first account of its wallet', async () => {
    const service = await startClientService()
    const account = privateKeyToAccount(createNumberedWallet(2).privateKey as '0x')
    const auth = service.client({ wallet: createWalletClient({ account, transport: custom(provider()) }) })
    expect(await auth.logIn()).toMatchObject({ did: createNumberedWallet(2).did })
  })

  it.each([
    ['its local account', privateKeyToAccount(createNumberedWallet(2).privateKey as '0x'), createNumberedWallet(2).did],
    ['its wallet, for the account that it names', alice.address as '0x', alice.did]
  ])('works with a viem client without signMessage, by %s', async (_name, account, did) => {
    const service = await startClientService()
    const wallet = provider()
    const auth = service.client({ wallet: createClient({ account, transport: custom(wallet) }) })
    expect(await auth.logIn()).toMatchObject({ did })
    expect(wallet.methods).toEqual(did === alice.did ? ['personal_sign'] : [])
  })

  it('asks the user to connect the wallet if the wallet does not know the account', async () => {
    const service = await startClientService()
    const unauthorized = provider({ personal_sign: { code: 4100, message: 'Unauthorized' } })
    const wallet = createClient({ account: alice.address as '0x', transport: custom(unauthorized, { retryCount: 0 }) })
    const userMessage = expect.stringMatching(/^Your wallet is not connected/)
    await expect(service.client({ wallet }).logIn()).rejects.toMatchObject({ code: 'WALLET', userMessage })
  })

  it('names the network that the service refuses, at the challenge and at the login', async () => {
    const service = await startClientService()
    for (const [network, path, name] of [
      [undefined, '/request-auth', 'rsk:'],
      ['rsk:testnet', '/auth', 'rsk:testnet:'],
      ['', '/request-auth', '']
    ] as const) {
      service.intercept((exchange) =>
        exchange.path === path
          ? Response.json({ title: 'Unsupported DID', code: 'ERR_DID_UNSUPPORTED' }, { status: 401 })
          : undefined
      )
      await expect(service.client({ network }).logIn()).rejects.toMatchObject({
        code: 'REFUSED',
        serverCode: 'ERR_DID_UNSUPPORTED',
        message: expect.stringMatching(/Contracts log in with message: 'siwe' \(EIP-4361\)$/),
        userMessage: expect.stringMatching(
          `^The service refused the network of did:ethr:${name}0x\\w{40}\\. Contact its operator\\.$`
        )
      })
    }
  })

  it('throws a TypeError that names getSigner for an ethers provider, without an unhandled rejection', async () => {
    const service = await startClientService()
    const apart = jest.fn()
    process.on('unhandledRejection', apart)
    afterTest(() => process.off('unhandledRejection', apart))
    const wallet = new BrowserProvider(provider()) as unknown as Wallet
    await expect(service.client({ wallet }).logIn()).rejects.toThrow(TypeError)
    await expect(service.client({ wallet: undefined }).logIn({ wallet })).rejects.toThrow('getSigner()')
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(apart).not.toHaveBeenCalled()
  })

  it('uses window.ethereum if no wallet is given, and throws NO_WALLET without it', async () => {
    const service = await startClientService()
    const auth = service.client({ wallet: undefined })
    await expect(auth.logIn()).rejects.toMatchObject({ code: 'NO_WALLET' })
    setGlobals({ ethereum: provider() })
    expect(await auth.logIn()).toMatchObject({ did: alice.did })
  })

  it('only requests a signature from the wallet if the challenge was prepared', async () => {
    const service = await startClientService()
    const wallet = provider()
    const auth = service.client({ wallet })
    await auth.prepare(alice.address)
    expect(wallet.methods).toEqual([])
    const before = service.exchanges.length
    await auth.logIn()
    expect(service.paths().slice(before)).toEqual(['/auth'])
    expect(wallet.methods).toEqual(['eth_requestAccounts', 'personal_sign'])
  })

  it('requests a new challenge if the prepared one has expired or is for another account', async () => {
    const service = await startClientService()
    const auth = service.client()
    await auth.prepare(createNumberedWallet(2).address)
    await auth.logIn()
    await auth.prepare(alice.address)
    service.clock.seconds += 300
    await auth.logIn()
    const paths = ['/request-auth', '/request-auth', '/auth']
    expect(service.paths()).toEqual([...paths, ...paths, '/logout'])
  })
})

describe('DidAuthClient when the wallet switches accounts', () =>
  it.each([
    ['signs out', undefined, [createNumberedWallet(2).address], false],
    ['does nothing if a wallet names accounts by CAIP-10', 'signOut' as const, [`eip155:30:${alice.address}`], true],
    ['does nothing with onAccountChange ignore', 'ignore' as const, [createNumberedWallet(2).address], true],
    ['does nothing if the account stays the same', undefined, [alice.address.toLowerCase()], true],
    ['does nothing if the wallet was locked', undefined, [], true],
    ['does nothing if the wallet reports no list', undefined, { a: 1 }, true]
  ])('%s', async (_name, onAccountChange, accounts, stays) => {
    const service = await startClientService()
    const wallet = provider()
    const auth = await service.signedIn({ wallet, onAccountChange })
    wallet.change(accounts)
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(auth.session !== undefined).toBe(stays)
  }))

describe('connectWallet', () => {
  it('returns the DID, and signs with personal_sign', async () => {
    const signer = await connectWallet(provider())
    expect(signer.did).toBe(alice.did)
    expect(verifyMessage('äöü\nb', await signer.signMessage('äöü\nb'))).toBe(alice.address)
  })

  const rejected = { code: 4001, message: 'User rejected the request' }
  const nested = Object.assign(new Error('user rejected action'), { code: 'ACTION_REJECTED' })
  it.each([
    ['a rejection', { eth_requestAccounts: rejected }, 'USER_REJECTED'],
    ['a rejection that a library passes on', { personal_sign: nested }, 'USER_REJECTED'],
    [
      'a rejection as the cause of another error',
      { personal_sign: new Error('x', { cause: rejected }) },
      'USER_REJECTED'
    ],
    ['a rejection by WalletConnect', { eth_requestAccounts: { code: 5000 } }, 'USER_REJECTED'],
    ['methods rejected by WalletConnect', { eth_requestAccounts: { code: 5002 } }, 'USER_REJECTED'],
    ['an error of WalletConnect that is not a rejection', { eth_requestAccounts: { code: 5001 } }, 'WALLET'],
    ['a pending request', { eth_requestAccounts: { code: -32002 } }, 'WALLET_BUSY'],
    [
      'a pending request within info',
      { personal_sign: { code: 'x', info: { error: { code: -32002 } } } },
      'WALLET_BUSY'
    ],
    ['no account', { eth_requestAccounts: [] }, 'NO_WALLET'],
    ['nothing', { eth_requestAccounts: null }, 'NO_WALLET'],
    ['an invalid account', { eth_requestAccounts: ['0x12'] }, 'WALLET'],
    ['an account that is not a string', { eth_requestAccounts: [{ address: alice.address }] }, 'WALLET'],
    ['an invalid chain', { eth_chainId: 'mainnet' }, 'WALLET'],
    ['an invalid signature', { personal_sign: '0x12' }, 'WALLET'],
    ['a signature of a contract', { personal_sign: `0x${'ab'.repeat(97)}` }, 'WALLET'],
    ['an object instead of a signature', { personal_sign: { r: 1 } }, 'WALLET'],
    ['another error of the wallet', { personal_sign: new Error('Ledger is locked') }, 'WALLET']
  ])('reports what %s means, and what to do', async (_name, answers, kind) => {
    const sign = async (): Promise<string> => (await connectWallet(provider(answers), 'chain')).signByKey('text')
    const error = await sign().catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({
      code: kind,
      retryable: false,
      userMessage: expect.stringMatching(/ry again|Install or unlock/)
    })
  })

  it.each([0, 65, 97, 1_500, 8_192])(
    'accepts a signature of %d bytes, which a contract account makes',
    async (bytes) => {
      const signature = `0x${'ab'.repeat(bytes)}`
      expect(await (await connectWallet(provider({ personal_sign: signature }))).signMessage('text')).toBe(signature)
    }
  )

  it.each(['0xabc', `0x${'ab'.repeat(8_193)}`, '', '0x zz', null])('refuses the signature %s', async (signature) => {
    const { signMessage } = await connectWallet(provider({ personal_sign: signature }))
    await expect(signMessage('text')).rejects.toMatchObject({ code: 'WALLET', message: 'Not 0,8192 bytes of hex' })
  })

  it.each(['0X', ''])('writes 0x where the wallet writes "%s"', async (prefix) => {
    const digits = 'Ab'.repeat(65)
    const answers = { personal_sign: prefix + digits, eth_requestAccounts: [prefix + alice.address.slice(2)] }
    const { address, signByKey } = await connectWallet(provider(answers))
    expect([address, await signByKey('text')]).toEqual([alice.address, `0x${digits}`])
  })

  it('names the text that a contract account has to sign', async () => {
    const wallet = provider({ personal_sign: `0x${'ab'.repeat(97)}` })
    const service = await startClientService()
    const error = await service
      .client({ wallet })
      .logIn()
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ message: "Not 65 bytes of hex. Contracts log in with message: 'siwe'" })
  })

  it.each([
    ['eth_requestAccounts', -32002, 'WALLET_BUSY'],
    ['personal_sign', -32002, 'WALLET_BUSY'],
    ['eth_requestAccounts', 4001, 'USER_REJECTED'],
    ['personal_sign', 4001, 'USER_REJECTED'],
    ['personal_sign', 5000, 'USER_REJECTED']
  ] as const)('finds the original error %s, %d, in the error of ethers', async (method, code, kind) => {
    const failing = provider({ eth_accounts: [alice.address] })
    const ethers = new BrowserProvider(failing)
    afterTest(() => ethers.destroy())
    const request = failing.request.bind(failing)
    const signer = {
      getAddress: async () => (await ethers.getSigner()).address,
      signMessage: async (text: string) => (await ethers.getSigner()).signMessage(text)
    }
    failing.request = async (args) => {
      if (args.method === 'eth_accounts') return method === 'personal_sign' ? [alice.address] : []
      if (args.method === method) throw Object.assign(new Error('x'), { code })
      return request(args)
    }
    const sign = async (): Promise<string> => (await connectWallet(signer)).signMessage('text')
    await expect(sign()).rejects.toMatchObject({ code: kind })
  })

  it.each([
    ['a wallet that is an empty object', {}],
    ['a wallet without signMessage', { address: alice.address }]
  ])('throws WALLET or NO_WALLET for %s', async (_name, wallet) => {
    const sign = async (): Promise<string> => (await connectWallet(wallet as Wallet)).signMessage('text')
    await expect(sign()).rejects.toMatchObject({ code: expect.stringMatching(/^(NO_)?WALLET$/) })
  })

  it('requests the account of a viem wallet client without one, as for any provider', async () => {
    const wallet = createWalletClient({ transport: custom(provider()) }) as unknown as Wallet
    const connected = await connectWallet(wallet)
    expect(connected.did).toBe(`did:ethr:rsk:${alice.address.toLowerCase()}`)
    expect(await connected.signMessage('text')).toMatch(/^0x[0-9a-f]{130}$/)
  })

  it('throws the reason of the signal while a wallet does not respond', async () => {
    const silent: Eip1193Provider = { request: () => new Promise(() => undefined) }
    const controller = new AbortController()
    const connecting = connectWallet(silent, 'rsk', controller.signal)
    controller.abort(new Error('closed'))
    await expect(connecting).rejects.toEqual(new Error('closed'))
  })
})

describe('toAccountDid', () => {
  const address = '0xAbCdef0000000000000000000000000000000001'
  it.each([
    [undefined, undefined, 'did:ethr:rsk:'],
    [1, undefined, 'did:ethr:rsk:'],
    [31, undefined, 'did:ethr:rsk:'],
    [undefined, 'chain', 'did:ethr:rsk:'],
    [30, 'chain', 'did:ethr:rsk:'],
    [31, 'chain', 'did:ethr:rsk:testnet:'],
    [1, 'chain', 'did:ethr:'],
    [11_155_111, 'chain', 'did:ethr:0xaa36a7:'],
    [1, 'rsk', 'did:ethr:rsk:'],
    [30, '', 'did:ethr:'],
    [undefined, '0x5', 'did:ethr:0x5:']
  ])('maps chain %p and network %p to a DID that starts with %p %s', async (chainId, network, start) => {
    const did = await toAccountDid(createPlainWallet(alice, chainId), address, network)
    expect(did).toBe(start + address.toLowerCase())
  })
})

const silentProvider = (): Eip1193Provider => ({ request: () => Promise.resolve(undefined) })

describe('findWallets', () => {
  const announce = (target: EventTarget, detail: unknown): void => {
    target.dispatchEvent(Object.assign(new Event('eip6963:announceProvider'), { detail }))
  }
  const info = (rdns: string, icon = 'data:image/png;base64,AA=='): object => ({
    rdns,
    name: rdns.toUpperCase(),
    icon,
    uuid: rdns
  })

  it('returns none outside a browser', async () => {
    expect(await findWallets()).toEqual([])
  })

  it('returns wallets that announce themselves, early and late, each once, and no broken ones', async () => {
    const target = setPage()
    const [firstWallet, secondWallet] = [silentProvider(), silentProvider()]
    target.addEventListener('eip6963:requestProvider', () => {
      announce(target, { info: info('a.b'), provider: firstWallet })
      announce(target, { info: info('a.b'), provider: firstWallet })
      announce(target, { info: { name: 'x' }, provider: secondWallet })
      announce(target, undefined)
      setTimeout(() => {
        announce(target, { info: info('c.d', 'https://tracker.example/icon.png'), provider: secondWallet })
      }, 5)
    })
    expect(await findWallets({ ms: 60 })).toEqual([
      { id: 'a.b', name: 'A.B', icon: 'data:image/png;base64,AA==', provider: firstWallet },
      { id: 'c.d', name: 'C.D', icon: undefined, provider: secondWallet }
    ])
  })

  it('reports each wallet that announces itself after the list was returned, and none twice', async () => {
    const [ownProvider, earlyProvider, lateProvider] = [silentProvider(), silentProvider(), silentProvider()]
    const target = setPage(ownProvider)
    target.addEventListener('eip6963:requestProvider', () =>
      announce(target, { info: info('e'), provider: earlyProvider })
    )
    const announcements: string[] = []
    const onLate = ({ id }: { id: string }): void => void announcements.push(id)
    expect((await findWallets({ ms: 1, onLate })).map(({ id }) => id)).toEqual(['e', 'injected'])
    for (const [id, provider] of Object.entries({ e: earlyProvider, l: lateProvider, own: ownProvider }))
      for (let twice = 0; twice < 2; twice += 1) announce(target, { info: info(id), provider })
    expect(announcements).toEqual(['l', 'own'])
  })

  it('appends window.ethereum, unless it has announced itself', async () => {
    const [ownProvider, other] = [silentProvider(), silentProvider()]
    const target = setPage(ownProvider)
    expect(await findWallets({ ms: 1 })).toMatchObject([{ id: 'injected', provider: ownProvider }])
    target.addEventListener('eip6963:requestProvider', () => announce(target, { info: info('o'), provider: other }))
    expect((await findWallets({ ms: 1 })).map(({ id }) => id)).toEqual(['o', 'injected'])
    target.addEventListener('eip6963:requestProvider', () =>
      announce(target, { info: info('own'), provider: ownProvider })
    )
    expect((await findWallets({ ms: 1 })).map(({ id }) => id)).toEqual(['o', 'own'])
  })

  it('returns each wallet of the test kit, created by its seed', async () => {
    const target = setPage()
    for (const seed of ['alice', 'bob']) testWallet(seed).announce(target)
    expect((await findWallets({ ms: 1 })).map(({ name }) => name)).toEqual(['alice', 'bob'])
  })
})
