import { describe, expect, it } from '@jest/globals'
import type { RequestListener } from 'node:http'
import { DidAuthClient } from 'express-did-auth/client'
import { RelayClient } from 'express-did-auth/client/relay'
import { VaultClient } from 'express-did-auth/client/vault'
import { afterTest } from '../support/after-test.js'
import { expectClientError, problem, serverAt } from '../support/client-error.js'
import { startTestRelay } from '../support/relay-app.js'
import { startIssuer } from '../support/resource-tokens.js'
import { newWallet, testVault } from '../support/vault-app.js'

const RELAY = 'https://relay.example'
const VAULT = 'https://vault.example'

/** A user of an auth server, whose tokens relay and vault accept, and what the requests to these two carry. */
async function newUser() {
  const issuer = await startIssuer({ resources: [RELAY, VAULT] })
  issuer.clock.seconds = Math.floor(Date.now() / 1_000)
  const seen: { path: string; authorization: string | undefined }[] = []
  const seenAt = (listener: RequestListener): Promise<string> =>
    serverAt((req, res) => {
      seen.push({ path: req.url ?? '', authorization: req.headers.authorization })
      listener(req, res)
    })
  const env = { TRUSTED_ISSUER: issuer.url }
  const [relay, vault] = [await startTestRelay(env), await testVault(env)]
  relay.clock.seconds = issuer.clock.seconds
  afterTest(relay.end, vault.close)
  const { address, personalSign, did } = newWallet()
  const signed: string[] = []
  const wallet = {
    address,
    signMessage(text: string) {
      signed.push(text)
      return personalSign(text)
    }
  }
  const auth = new DidAuthClient({ url: issuer.url, wallet, domain: 'service.example' })
  const { listener: relayListener } = relay
  return { issuer, auth, did, signed, seen, seenAt, relayListener, vaultListener: vault.listener }
}

describe('RelayClient and VaultClient with the tokens of an auth server', () => {
  it('send, open and keep with one signature in all', async () => {
    const { auth, signed, seen, seenAt, relayListener, vaultListener } = await newUser()
    await auth.logIn()
    const relay = new RelayClient({ auth, resource: RELAY, url: await seenAt(relayListener) })
    expect(await relay.open(await relay.send('The old oak'))).toBe('The old oak')
    const vault = new VaultClient({ auth, resource: VAULT, url: await seenAt(vaultListener) })
    await vault.add('notes', 'Buy oak')
    expect((await vault.keys()).map(({ key }) => key)).toEqual(['notes'])
    expect(signed).toHaveLength(1)
    expect(seen.every(({ authorization }) => authorization?.startsWith('Bearer ey'))).toBe(true)
  })

  it('asks no token for a list that everybody may read, and reads it without a session', async () => {
    const { auth, did, seen, seenAt, vaultListener } = await newUser()
    const vault = new VaultClient({ auth, resource: VAULT, url: await seenAt(vaultListener) })
    expect((await vault.get('notes', did)).contents).toEqual([])
    expect(seen).toEqual([{ path: `/${encodeURIComponent(did)}/notes`, authorization: undefined }])
  })

  it('fails without a session, and sends nothing', async () => {
    const { auth, seen, seenAt, relayListener, vaultListener } = await newUser()
    const relay = new RelayClient({ auth, resource: RELAY, url: await seenAt(relayListener) })
    const vault = new VaultClient({ auth, resource: VAULT, url: await seenAt(vaultListener) })
    await expectClientError(relay.send('Hello'), { code: 'NOT_SIGNED_IN' })
    await expectClientError(vault.add('notes', 'Hello'), { code: 'NOT_SIGNED_IN' })
    expect(seen).toEqual([])
  })

  it('ask once more with another token where one is refused, and never twice', async () => {
    const { issuer, auth, seen, seenAt } = await newUser()
    await auth.logIn()
    const refusing = await seenAt(problem(401, 'ERR_ACCESS_TOKEN_EXPIRED'))
    await expectClientError(new VaultClient({ auth, resource: VAULT, url: refusing }).keys(), { code: 'NOT_SIGNED_IN' })
    await expectClientError(new RelayClient({ auth, resource: RELAY, url: refusing }).send('Hello'), {
      code: 'NOT_SIGNED_IN'
    })
    expect(new Set(seen.map(({ authorization }) => authorization)).size).toBe(4)
    expect(issuer.asked.filter((path) => path === '/resource-token')).toHaveLength(4)
  })

  // Cause: only the request had the signal, and not the wait for its token.
  it('wait for a token no longer than their signal', async () => {
    const auth = { tokenFor: () => new Promise<string>(() => undefined), session: undefined, fetch }
    const signal = AbortSignal.abort(new Error('enough'))
    const url = 'http://127.0.0.1:1'
    await expect(new VaultClient({ auth, resource: VAULT, url }).keys({ signal })).rejects.toThrow('enough')
    await expect(new RelayClient({ auth, resource: RELAY, url }).send('Hello', { signal })).rejects.toThrow('enough')
  })

  it('give the token to no gateway', async () => {
    const { auth, seen, seenAt, relayListener } = await newUser()
    await auth.logIn()
    const url = await seenAt(relayListener)
    const uri = await new RelayClient({ auth, resource: RELAY, url }).send('The old oak')
    const gateway = await seenAt((_req, res) => res.writeHead(404).end())
    await new RelayClient({ auth, resource: RELAY, url }).open(uri, { gateways: [gateway] })
    const asked = seen.filter(({ path }) => path.startsWith('/ipfs/'))
    expect(asked).toEqual([{ path: expect.stringMatching('format=raw'), authorization: undefined }])
  })
})
