import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import type { RequestListener } from 'node:http'
import request, { type Response } from 'supertest'
import type { ContractVerifier, DidAuthConfig } from 'express-did-auth'
import { createPublicClient, createWalletClient, http, type PublicClient } from 'viem'
import { decodePayload } from '../flows/flow-parts.js'
import { logIn, type TestTokens } from '../support/servers/app-client.js'
import { startChain, type TestChain } from '../support/engines/chain.js'
import { accountContracts, type AccountContracts, type ContractAccount } from '../support/engines/contract-accounts.js'
import { answering, answeringResults, startRpcNode, startSwitchedNode } from '../support/faults/rpc-node.js'
import { createAccount, createSignedSiwe, requestNonce, createSiweText } from '../support/fixtures/siwe.js'
import { holdTime, type HeldTime } from '../support/fixtures/hold-time.js'
import { testApp, type TestApp } from '../support/servers/test-app.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const CHAIN = 31
const GOOD = [200, '']
const REFUSED = [401, 'Refused by the contract']
const ABSENT = [401, 'No contract at this address']
const AWAY = [503, 'Chain unavailable, try again']
const NETWORK = [401, 'Network not accepted']
const CHALLENGE = [401, 'Invalid challenge response']

let chain: TestChain
let contracts: AccountContracts
let time: HeldTime

beforeAll(async () => {
  chain = await startChain(CHAIN)
  contracts = await accountContracts(chain)
})

beforeEach(() => {
  time = holdTime()
})

afterAll(() => chain.stop())

/** Creates the client of the recipe. */
function createClient(rpcUrl: string): PublicClient {
  return createPublicClient({ transport: http(rpcUrl, { timeout: 3_000, retryCount: 0 }), ccipRead: false })
}

async function chainApp(rpcUrl = chain.rpcUrl, config: Partial<DidAuthConfig> = {}): Promise<TestApp> {
  return testApp({ siwe: true, contractWallets: { [CHAIN]: createClient(rpcUrl) }, ...config })
}

/** Creates the body of a `POST /siwe/verify`: a message with a nonce, signed by an account. */
async function signedBy(
  { app }: TestApp,
  account: ContractAccount,
  { chainId = CHAIN, by = account }: { chainId?: number; by?: Pick<ContractAccount, 'personalSign'> } = {}
): Promise<{ message: string; signature: string }> {
  const message = createSiweText(account, await requestNonce(app), { chainId })
  return { message, signature: by.personalSign(message) }
}

function verify({ app }: TestApp, body: object): Promise<Response> {
  return request(app).post('/siwe/verify').send(body).then()
}

async function answerTo(app: TestApp, body: object): Promise<unknown> {
  const { status, text } = await verify(app, body)
  return [status, status === 200 ? '' : text]
}

describe('a Safe 1.4.1 of two owners', () => {
  it('logs in once with both signatures: DID, account and method are those of its chain', async () => {
    const safe = contracts.safe([4001, 4002])
    await safe.deploy()
    // The chain of a contract is accepted in addition to `networks`.
    const app = await chainApp(chain.rpcUrl, { networks: ['rsk'] })
    const body = await signedBy(app, safe)
    const { status, body: answer } = await verify(app, body)
    const address = safe.address.toLowerCase()
    expect([status, answer]).toEqual([
      200,
      expect.objectContaining({ did: `did:ethr:0x1f:${address}`, address, chainId: CHAIN })
    ])
    expect(decodePayload((answer as TestTokens).accessToken)).toMatchObject({
      sub: `did:ethr:0x1f:${address}`,
      acct: `eip155:31:${address}`,
      amr: ['contract']
    })
    expect(await answerTo(app, body)).toEqual([401, 'Invalid challenge response: used'])
  })

  it('is refused with one signature, or that of a stranger or a removed owner', async () => {
    const safe = contracts.safe([4003, 4004])
    await safe.deploy()
    const app = await chainApp()
    const by = (owners: number[]) => ({ by: { personalSign: (text: string) => safe.signBy(owners, text) } })
    expect(await answerTo(app, await signedBy(app, safe, by([4003])))).toEqual(REFUSED)
    expect(await answerTo(app, await signedBy(app, safe, by([4003, 4005])))).toEqual(REFUSED)
    await safe.swapOwner(4003, 4005)
    expect(await answerTo(app, await signedBy(app, safe))).toEqual(REFUSED)
    expect(await answerTo(app, await signedBy(app, safe, by([4004, 4005])))).toEqual(GOOD)
  })

  it('logs in before it is deployed (ERC-6492)', async () => {
    const safe = contracts.safe([4006, 4007])
    const app = await chainApp()
    expect(await answerTo(app, await signedBy(app, safe))).toEqual(GOOD)
    const by = { personalSign: (text: string) => safe.signBy([4006, 4007], text) }
    expect(await answerTo(app, await signedBy(app, safe, { by }))).toEqual(ABSENT)
  })

  it('is refused with the signature for another Safe of the same owners', async () => {
    const [first, second] = [contracts.safe([4008, 4009]), contracts.safe([4009, 4008])]
    await first.deploy()
    await second.deploy()
    const app = await chainApp()
    expect(await answerTo(app, await signedBy(app, second, { by: first }))).toEqual(REFUSED)
    expect(await answerTo(app, await signedBy(app, second))).toEqual(GOOD)
  })

  it('is refused on a chain that is not configured, as is a key that is not its own', async () => {
    const safe = contracts.safe([4010, 4011])
    const app = await chainApp()
    expect(await answerTo(app, await signedBy(app, safe, { chainId: 1 }))).toEqual(NETWORK)
    const by = { personalSign: (text: string) => createNumberedWallet(4010).personalSign(text) }
    expect(await answerTo(app, await signedBy(app, safe, { chainId: 1, by }))).toEqual(CHALLENGE)
    expect(await answerTo(app, await signedBy(app, safe, { by }))).toEqual(ABSENT)
  })
})

describe('a wallet that signs by ERC-7739', () =>
  it('logs in, and is refused with the signature for another wallet of its owner', async () => {
    const [first, second] = [await contracts.nested(4020), await contracts.nested(4020)]
    const app = await chainApp()
    expect(await answerTo(app, await signedBy(app, first))).toEqual(GOOD)
    expect(await answerTo(app, await signedBy(app, first, { by: second }))).toEqual(REFUSED)
  }))

describe('a malicious contract', () => {
  it.each([
    ['31 bytes', 31, REFUSED],
    ['the magic value and nothing else', 32, GOOD],
    // Solidity ignores everything after the 32 bytes.
    ['33 bytes', 33, GOOD],
    ['never', 0, REFUSED]
  ])('is refused if it returns %s', async (_name, length, expected) => {
    const app = await chainApp()
    expect(await answerTo(app, await signedBy(app, await contracts.answer(length)))).toEqual(expected)
  })

  it('cannot make the service fetch a URL (CCIP-Read)', async () => {
    const listener = await startRpcNode(answering(500, ''))
    const account = await contracts.fetching(`${listener.rpcUrl}/{sender}/{data}`)
    const app = await chainApp()
    expect(await answerTo(app, await signedBy(app, account))).toEqual(REFUSED)
    expect(listener.count()).toBe(0)
    // The contract does request a fetch: a client with CCIP-Read fetches.
    const obeying = createPublicClient({ transport: http(chain.rpcUrl) })
    await obeying.call({ to: account.address, data: '0x1626ba7e' }).catch(() => undefined)
    expect(listener.count()).toBeGreaterThan(0)
    listener.stop()
  })
})

describe('a key at a service with contractWallets', () =>
  it('causes no call to a node, even if its account has code (EIP-7702)', async () => {
    const node = await startSwitchedNode(chain.rpcUrl, answering(500, ''))
    const app = await chainApp(node.rpcUrl)
    const account = createAccount(4030)
    const delegate = await contracts.answer(32)
    const wallet = createWalletClient({ account, transport: http(chain.rpcUrl) })
    const chainOfWallet = {
      id: CHAIN,
      name: '',
      nativeCurrency: { name: '', symbol: '', decimals: 18 },
      rpcUrls: { default: { http: [chain.rpcUrl] } }
    }
    const authorization = await wallet.signAuthorization({
      contractAddress: delegate.address,
      executor: 'self',
      chainId: CHAIN,
      nonce: 1
    })
    await wallet.sendTransaction({
      chain: chainOfWallet,
      authorizationList: [authorization],
      to: account.address,
      gas: 200_000n,
      maxFeePerGas: 0n,
      maxPriorityFeePerGas: 0n,
      nonce: 0
    })
    const code = await createClient(chain.rpcUrl).getCode({ address: account.address })
    expect(code?.toLowerCase()).toBe(`0xef0100${delegate.address.slice(2).toLowerCase()}`)
    const { body } = await verify(app, await createSignedSiwe(app.app, account, { chainId: CHAIN }))
    expect(decodePayload((body as TestTokens).accessToken)).toMatchObject({ amr: ['eoa'] })
    expect(await answerTo(app, await createSignedSiwe(app.app, createAccount(4031), { chainId: CHAIN }))).toEqual(GOOD)
    await logIn(app.app, createNumberedWallet(4031))
    expect(node.count()).toBe(0)
    node.stop()
  }))

describe('a faulty node, which', () => {
  const chainIdOnly: RequestListener = answeringResults((method) =>
    method === 'eth_chainId' ? { result: '0x1f' } : undefined
  )

  /** Returns a node that knows its chain, and the code only once. */
  const failingAtVerdict = (): RequestListener => {
    let codes = 0
    return answeringResults((method) => {
      if (method === 'eth_chainId') return { result: '0x1f' }
      if (method === 'eth_getCode') codes += 1
      return method === 'eth_getCode' && codes === 1
        ? { result: '0x60' }
        : { error: { code: -32_000, message: 'away' } }
    })
  }

  it.each<[string, RequestListener]>([
    ['is not there', (req) => req.socket.destroy()],
    ['is slow', () => undefined],
    ['answers its chain id alone', chainIdOnly],
    ['speaks HTML', answering(200, '<html>welcome</html>')],
    ['answers 429', answering(429, 'slow down')],
    ['answers errors', answeringResults(() => ({ error: { code: -32_000, message: 'go away' } }))],
    ['fails from the verdict on, which viem takes for a no', failingAtVerdict()]
  ])('%s, causes 503 and never a refusal; the nonce stays valid', async (_name, away) => {
    const safe = contracts.safe([4040, 4041])
    const node = await startSwitchedNode(chain.rpcUrl, away)
    const app = await chainApp(node.rpcUrl)
    const body = await signedBy(app, safe)
    time.restore()
    expect(await answerTo(app, body)).toEqual(AWAY)
    time = holdTime()
    node.comeBack()
    expect(await answerTo(app, body)).toEqual(GOOD)
    expect(JSON.stringify(app.log)).not.toContain(node.rpcUrl)
    node.stop()
  })
})

describe('the budget of a client network', () =>
  it('is 30 contract proofs per slot; keys have a separate budget', async () => {
    let asked = 0
    const verifier: ContractVerifier = {
      getChainId: async () => CHAIN,
      getCode: async () => '0x60',
      verifyMessage: async () => {
        asked += 1
        return false
      }
    }
    const app = await chainApp(undefined, { contractWallets: { [CHAIN]: verifier } })
    const account = { address: `0x${'ab'.repeat(20)}`, personalSign: () => '0x01' } as const
    const body = await signedBy(app, account)
    for (let count = 0; count < 30; count += 1) expect(await answerTo(app, body)).toEqual(REFUSED)
    expect((await verify(app, body)).status).toBe(429)
    expect(asked).toBe(30)
    expect(await answerTo(app, await createSignedSiwe(app.app, createAccount(4050)))).toEqual(GOOD)
  }))
