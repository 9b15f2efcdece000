import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { build } from 'esbuild'
import type { Browser, CDPSession, Page } from 'playwright-core'
import { launchBrowser, openProfile } from '../support/engines/browser.js'
import { startAnsweringServer, listenAt, type HttpAddress } from '../support/fixtures/client-error.js'
import { root } from '../support/fixtures/documents.js'
import { ServerProcesses, type ServerProcess } from '../support/servers/server-process.js'

/** Bundles the entries of the client as a script: `kit.createPasskey`. */
async function bundle(): Promise<string> {
  const entries = ['index', 'keyring/index', 'passkey/index', 'relay/index', 'vault/index'].map(
    (name) => `./src/client/${name}.ts`
  )
  const { outputFiles } = await build({
    stdin: { contents: entries.map((entry) => `export * from '${entry}'`).join('\n'), resolveDir: root },
    bundle: true,
    format: 'iife',
    globalName: 'kit',
    write: false
  })
  return `${outputFiles[0]!.text}; globalThis.kit = kit`
}

/** A page with a virtual authenticator. */
interface PasskeyPage {
  page: Page
  cdp: CDPSession
  authenticatorId: string
  /** Returns the number of confirmed prompts. */
  prompts(): number
  /** Returns the number of existing passkeys. */
  passkeys(): Promise<number>
}

describe('a passkey as a wallet, in Chromium', () => {
  const servers = new ServerProcesses({ LOG_LEVEL: 'silent' })
  let [all, site, browser, script] = [] as unknown as [ServerProcess, HttpAddress, Browser, string]

  beforeAll(async () => {
    ;[all, site, browser, script] = await Promise.all([
      servers.start({}, [], 'all'),
      listenAt(startAnsweringServer(200, '<!doctype html>')),
      launchBrowser(),
      bundle()
    ])
  })
  afterEach(() => Promise.all(browser.contexts().map((context) => context.close())))
  afterAll(async () => {
    await browser.close()
    await site.close()
    await servers.killAll()
  })

  /** Returns the URL of the page under another name of this machine. */
  const toHost = (host: string): string => site.url.replace('127.0.0.1', host)

  async function openPage(url = toHost('localhost'), options: object = {}): Promise<PasskeyPage> {
    const { context } = await openProfile(browser)
    await context.addInitScript(script)
    const page = await context.newPage()
    const cdp = await context.newCDPSession(page)
    let count = 0
    cdp.on('WebAuthn.credentialAsserted', () => (count += 1))
    cdp.on('WebAuthn.credentialAdded', () => (count += 1))
    await cdp.send('WebAuthn.enable')
    const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        ctap2Version: 'ctap2_1',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
        hasPrf: true,
        ...options
      }
    })
    await page.goto(url)
    const passkeys = async (): Promise<number> =>
      (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials.length
    return { page, cdp, authenticatorId, prompts: () => count, passkeys }
  }

  /** Runs code of the page with its `kit`, and returns its result, or the code and user message of its error. */
  const run = (page: Page, code: string): Promise<unknown> =>
    page.evaluate(
      `(async () => { ${code} })().catch(({ code, userMessage, message }) => [code ?? message, userMessage])`
    )

  const create = `globalThis.wallet = await kit.createPasskey({ rpId: location.hostname, userName: 'Ada' })
    return wallet.address`
  const open = create.replace('createPasskey', 'openPasskey').replace(`, userName: 'Ada'`, '')

  it('has the same DID after a reload, and another DID for another rpId', async () => {
    const { page, passkeys } = await openPage()
    const address = await run(page, create)
    expect(address).toMatch(/^0x[0-9a-f]{40}$/)
    await page.reload()
    expect(await run(page, open)).toBe(address)
    await page.goto(toHost('a.localhost'))
    const other = await run(page, create)
    expect(other).toMatch(/^0x[0-9a-f]{40}$/)
    expect(other).not.toBe(address)
    expect(await passkeys()).toBe(2)
    expect(await run(page, `await kit.openPasskey({ rpId: 'localhost.example' })`)).toEqual([
      'WALLET',
      'Your wallet failed. Open it, and try again.'
    ])
  })

  it('logs in at auth, relay and vault: one prompt to open and log in, one per further login', async () => {
    const [, relay, vault] = all.servers.map(({ serviceUrl }) => serviceUrl)
    const { page, prompts } = await openPage(all.serviceUrl)
    const address = String(await run(page, create))
    const promptsBefore = prompts()
    const logIn = (url: string): string => `
      const auth = new kit.DidAuthClient({ url: '${url}' })
      await auth.logIn({ wallet })
      return auth.session.did`
    const did = `did:ethr:rsk:${address}`
    expect(await run(page, logIn(all.serviceUrl))).toBe(did)
    expect(prompts()).toBe(promptsBefore)
    await page.reload()
    await run(page, open)
    expect(await run(page, logIn(vault!))).toBe(did)
    expect(prompts()).toBe(promptsBefore + 1)
    const send = (options: string): string => `
      const relay = new kit.RelayClient({ url: '${relay!}', wallet, ${options} })
      return relay.open(await relay.send('The old oak'))`
    expect(await run(page, send(''))).toBe('The old oak')
    expect(await run(page, send('credential: wallet.credential'))).toBe('The old oak')
    expect(prompts()).toBe(promptsBefore + 3)
  })

  it('opens a keyring by a separate secret; another passkey does not open it', async () => {
    const [, , vault] = all.servers.map(({ serviceUrl }) => serviceUrl)
    const { page, cdp, authenticatorId, prompts } = await openPage(all.serviceUrl)
    const logIn = `const auth = new kit.DidAuthClient({ url: '${vault!}', wallet })
      await auth.logIn()
      const vault = new kit.VaultClient({ auth })
      const unlock = kit.passkey({ rpId: location.hostname })`
    await run(page, create)
    await run(
      page,
      `${logIn}
      const { key } = await kit.createKeyring({ vault, unlockers: [unlock] })
      await new kit.VaultClient({ auth, encrypt: { key } }).add('notes', 'Buy oak')`
    )
    expect(prompts()).toBe(2)
    await page.reload()
    await run(page, open)
    const read = `const { key, slots } = await kit.openKeyring({ vault, unlock })
      const { contents } = await new kit.VaultClient({ auth, encrypt: { key } }).get('notes')
      return [contents, slots.map(({ type }) => type)]`
    expect(await run(page, `${logIn}; ${read}`)).toEqual([['Buy oak'], ['recovery', 'passkey']])
    expect(prompts()).toBe(4)
    await run(page, `globalThis.kept = await kit.openPasskey({ rpId: location.hostname })`)
    await cdp.send('WebAuthn.clearCredentials', { authenticatorId })
    await run(page, create)
    expect(await run(page, `globalThis.wallet = kept; ${logIn}; ${read}`)).toEqual([
      'LOCKED',
      'Wrong recovery code, passkey or wallet. Check it, and try again.'
    ])
  })

  it('keeps its key for one signature, or for a minute without one', async () => {
    const { page, prompts } = await openPage()
    await page.clock.install()
    await run(page, create)
    const promptsBefore = prompts()
    expect(promptsBefore).toBe(1)
    const sign = `return wallet.signMessage('Hello ä')`
    const first = await run(page, sign)
    expect(prompts()).toBe(promptsBefore)
    expect(await run(page, sign)).toBe(first)
    expect(prompts()).toBe(promptsBefore + 1)
    await run(page, open)
    await page.clock.runFor(60_000)
    expect(await run(page, sign)).toBe(first)
    expect(prompts()).toBe(promptsBefore + 3)
  })

  it('prompts twice if a new passkey returns no secret on creation, as on a security key', async () => {
    const { page, prompts } = await openPage(undefined, { hasPrf: false, hasHmacSecret: true, transport: 'usb' })
    const address = await run(page, create)
    expect(prompts()).toBe(2)
    expect(await run(page, open)).toBe(address)
  })

  it('throws NO_PASSKEY without the extension, and creates no passkey if the browser says so first', async () => {
    const { page, passkeys } = await openPage(undefined, { hasPrf: false })
    await page.evaluate(`tell = PublicKeyCredential.getClientCapabilities
      PublicKeyCredential.getClientCapabilities = async () => ({ 'extension:prf': false })`)
    expect(await run(page, create)).toEqual(['NO_PASSKEY', 'Your passkey does not work here. Choose another way.'])
    expect(await passkeys()).toBe(0)
    await page.evaluate('PublicKeyCredential.getClientCapabilities = tell')
    const stays = 'Your new passkey does not work here. Delete it from your list of passkeys.'
    expect(await run(page, create)).toEqual(['NO_PASSKEY', stays])
    expect(await passkeys()).toBe(1)
    expect(await run(page, open)).toEqual(['NO_PASSKEY', 'Your passkey does not work here. Choose another way.'])
  })

  it('throws USER_REJECTED if the user does not respond', async () => {
    const { page, cdp, authenticatorId, passkeys } = await openPage()
    await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false })
    const refused = ['USER_REJECTED', 'You declined, or have no passkey here. Try again, or choose another way.']
    expect(await run(page, create)).toEqual(refused)
    expect(await run(page, open)).toEqual(refused)
    expect(await passkeys()).toBe(0)
  })
})
