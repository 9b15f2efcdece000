import { beforeEach, describe, expect, it } from '@jest/globals'
import { DidAuthClient } from 'express-did-auth-client'
import { expectClientError, startRefusingServer, startServer } from '../support/fixtures/client-error.js'
import { type ClientService, createSharedStorage, startClientService } from '../support/servers/client-service.js'
import { resourceKey } from '../support/servers/test-app.js'
import type { RequestListener } from 'node:http'
import { RelayClient } from 'express-did-auth-client/relay'
import { VaultClient } from 'express-did-auth-client/vault'
import { afterTest } from '../support/fixtures/after-test.js'
import { startTestRelay } from '../support/servers/relay-app.js'
import { startIssuer } from '../support/servers/resource-tokens.js'
import { createWallet, testVault } from '../support/servers/vault-app.js'
import { createWatchedWallet } from '../support/fixtures/fixtures.js'

const notes = 'https://notes.example.com'
const files = 'https://files.example.com'

let service: ClientService
let auth: DidAuthClient

beforeEach(async () => {
  service = await startClientService({ resources: [notes, files], resourceKeys: [resourceKey(1)] })
  auth = await service.signedIn()
})

const countTokenRequests = (): number => service.count('/resource-token')

const readClaims = (token: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>

describe('DidAuthClient.tokenFor', () => {
  it('requests one token for concurrent callers, and another for another resource', async () => {
    const tokens = await Promise.all(Array.from({ length: 10 }, () => auth.tokenFor(notes)))
    expect(new Set(tokens).size).toBe(1)
    expect(countTokenRequests()).toBe(1)
    expect(readClaims(tokens[0]!)).toMatchObject({ aud: notes, sub: auth.session?.did, sid: auth.session?.sessionId })
    expect(readClaims(await auth.tokenFor(files))).toMatchObject({ aud: files })
    expect(countTokenRequests()).toBe(2)
  })

  it('caches a token of 300 s until 30 s before its expiry', async () => {
    const token = await auth.tokenFor(notes)
    service.clock.seconds += 269
    expect(await auth.tokenFor(notes)).toBe(token)
    service.clock.seconds += 1
    expect(await auth.tokenFor(notes)).not.toBe(token)
  })

  it('never returns a refused token again, and requests one for all callers that had it', async () => {
    const refused = await auth.tokenFor(notes)
    const tokens = await Promise.all([auth.tokenFor(notes, refused), auth.tokenFor(notes, refused)])
    expect(tokens[0]).not.toBe(refused)
    expect(tokens[1]).toBe(tokens[0])
    expect(countTokenRequests()).toBe(2)
  })

  it('requests a new token after a login, and fails after a logout', async () => {
    await auth.tokenFor(notes)
    await auth.logIn()
    expect(readClaims(await auth.tokenFor(notes))).toMatchObject({ sid: auth.session?.sessionId })
    await auth.logOut()
    await expectClientError(auth.tokenFor(notes), { code: 'NOT_SIGNED_IN' })
    expect(countTokenRequests()).toBe(2)
  })

  it('refreshes an expired access token first, and works after a reload', async () => {
    const storage = createSharedStorage()
    await service.outdated({ storage })
    expect(readClaims(await service.client({ storage }).tokenFor(notes))).toMatchObject({ aud: notes })
    expect(service.count('/refresh-token')).toBe(1)
  })

  it('retries after a failed request', async () => {
    service.lose('/resource-token')
    await expectClientError(auth.tokenFor(notes), { code: 'UNAVAILABLE' })
    service.intercept(() => undefined)
    expect(readClaims(await auth.tokenFor(notes))).toMatchObject({ aud: notes })
  })

  it('fails for a resource that the service does not list, and keeps the session', async () => {
    await expectClientError(auth.tokenFor('https://other.example.com'), {
      code: 'PROTOCOL',
      status: 400,
      serverCode: 'ERR_RESOURCE'
    })
    expect(auth.session).toBeDefined()
  })

  it('refuses the token of another session, after a login in another tab', async () => {
    const other = await (await service.signedIn()).tokenFor(notes)
    service.interceptAnswer((exchange, response) =>
      exchange.path === '/resource-token' ? Response.json({ accessToken: other, expiresIn: 300 }) : response
    )
    await expectClientError(auth.tokenFor(notes), { code: 'NOT_SIGNED_IN' })
  })

  it('fails if the response has no token', async () => {
    service.interceptAnswer((exchange, response) =>
      exchange.path === '/resource-token' ? Response.json({ accessToken: 1 }) : response
    )
    await expectClientError(auth.tokenFor(notes), { code: 'PROTOCOL' })
  })
})

const RELAY = 'https://relay.example'
const VAULT = 'https://vault.example'

/** Starts a user of an auth server, whose tokens relay and vault accept, and records the requests to these two. */
async function startUser() {
  const issuer = await startIssuer({ resources: [RELAY, VAULT] })
  issuer.clock.seconds = Math.floor(Date.now() / 1_000)
  const requests: { path: string; authorization: string | undefined }[] = []
  const seenAt = (listener: RequestListener): Promise<string> =>
    startServer((req, res) => {
      requests.push({ path: req.url ?? '', authorization: req.headers.authorization })
      listener(req, res)
    })
  const env = { TRUSTED_ISSUER: issuer.url }
  const [relay, vault] = [await startTestRelay(env), await testVault(env)]
  relay.clock.seconds = issuer.clock.seconds
  afterTest(relay.end, vault.close)
  const user = createWallet()
  const wallet = createWatchedWallet(user)
  const auth = new DidAuthClient({ url: issuer.url, wallet, domain: 'service.example' })
  const { listener: relayListener } = relay
  return {
    issuer,
    auth,
    did: user.did,
    signed: wallet.signed,
    requests,
    seenAt,
    relayListener,
    vaultListener: vault.listener
  }
}

describe('RelayClient and VaultClient with the tokens of an auth server', () => {
  it('send, open and store with one signature in total', async () => {
    const { auth, signed, requests, seenAt, relayListener, vaultListener } = await startUser()
    await auth.logIn()
    const relay = new RelayClient({ auth, resource: RELAY, url: await seenAt(relayListener) })
    expect(await relay.open(await relay.send('The old oak'))).toBe('The old oak')
    const vault = new VaultClient({ auth, resource: VAULT, url: await seenAt(vaultListener) })
    await vault.add('notes', 'Buy oak')
    expect((await vault.keys()).map(({ key }) => key)).toEqual(['notes'])
    expect(signed).toHaveLength(1)
    expect(requests.every(({ authorization }) => authorization?.startsWith('Bearer ey'))).toBe(true)
  })

  it("pass absolute URLs and the token to the caller's fetch", async () => {
    const { auth, seenAt, relayListener } = await startUser()
    await auth.logIn()
    const urls: string[] = []
    const fetch: typeof globalThis.fetch = async (url, init) => {
      urls.push(`${new Headers(init?.headers).get('authorization')?.slice(0, 9)} ${url as string}`)
      return globalThis.fetch(url, init)
    }
    const url = await seenAt(relayListener)
    await new RelayClient({ auth, resource: RELAY, url, fetch }).send('Hello')
    expect(urls).toEqual([`Bearer ey ${url}/file`])
  })

  it('read a public list without a session or a token', async () => {
    const { auth, did, requests, seenAt, vaultListener } = await startUser()
    const vault = new VaultClient({ auth, resource: VAULT, url: await seenAt(vaultListener) })
    expect((await vault.get('notes', did)).contents).toEqual([])
    expect(requests).toEqual([{ path: `/${encodeURIComponent(did)}/notes`, authorization: undefined }])
  })

  it('fail without a session, and send nothing', async () => {
    const { auth, requests, seenAt, relayListener, vaultListener } = await startUser()
    const relay = new RelayClient({ auth, resource: RELAY, url: await seenAt(relayListener) })
    const vault = new VaultClient({ auth, resource: VAULT, url: await seenAt(vaultListener) })
    await expectClientError(relay.send('Hello'), { code: 'NOT_SIGNED_IN' })
    await expectClientError(vault.add('notes', 'Hello'), { code: 'NOT_SIGNED_IN' })
    expect(requests).toEqual([])
  })

  it('retry once with a new token if one is refused', async () => {
    const { issuer, auth, requests, seenAt } = await startUser()
    await auth.logIn()
    const refusing = await seenAt(startRefusingServer(401, 'ERR_ACCESS_TOKEN_EXPIRED'))
    await expectClientError(new VaultClient({ auth, resource: VAULT, url: refusing }).keys(), { code: 'NOT_SIGNED_IN' })
    await expectClientError(new RelayClient({ auth, resource: RELAY, url: refusing }).send('Hello'), {
      code: 'NOT_SIGNED_IN'
    })
    expect(new Set(requests.map(({ authorization }) => authorization)).size).toBe(4)
    expect(issuer.asked.filter((path) => path === '/resource-token')).toHaveLength(4)
  })

  // Cause: the signal aborted only the request, and not the wait for its token.
  it('stop waiting for a token when their signal aborts', async () => {
    const auth = { tokenFor: () => new Promise<string>(() => undefined), session: undefined, fetch }
    const signal = AbortSignal.abort(new Error('enough'))
    const url = 'http://127.0.0.1:1'
    await expect(new VaultClient({ auth, resource: VAULT, url }).keys({ signal })).rejects.toThrow('enough')
    await expect(new RelayClient({ auth, resource: RELAY, url }).send('Hello', { signal })).rejects.toThrow('enough')
  })

  it('send the token to no gateway', async () => {
    const { auth, requests, seenAt, relayListener } = await startUser()
    await auth.logIn()
    const url = await seenAt(relayListener)
    const uri = await new RelayClient({ auth, resource: RELAY, url }).send('The old oak')
    const gateway = await seenAt((_req, res) => res.writeHead(404).end())
    await new RelayClient({ auth, resource: RELAY, url }).open(uri, { gateways: [gateway] })
    const gatewayRequests = requests.filter(({ path }) => path.startsWith('/ipfs/'))
    expect(gatewayRequests).toEqual([{ path: expect.stringMatching('format=raw'), authorization: undefined }])
  })
})
