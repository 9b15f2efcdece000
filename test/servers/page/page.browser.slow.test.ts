import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { wallet, WalletError, type PageWallet, type WalletRequest } from 'express-did-auth/testing'
import { build } from 'esbuild'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { root } from '../../support/fixtures/documents.js'
import {
  findAccessibilityFaults,
  launchBrowser,
  logInByTabKey,
  openProfile,
  tabTo,
  waitForAnswer
} from '../../support/engines/browser.js'
import { ServerProcesses, type ServerProcess } from '../../support/servers/server-process.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'

/** Creates a wallet that gives a fixed answer to one method. */
const createAnsweringWallet = (method: string, answer: unknown): PageWallet => {
  const alice = wallet('alice')
  const request = async (walletRequest: WalletRequest): Promise<unknown> =>
    walletRequest.method === method ? answer : alice.request(walletRequest)
  return { info: alice.info, on: alice.on.bind(alice), request }
}

/** Wallet whose user reveals the address, and declines to sign. */
const decliningWallet: PageWallet = {
  ...createAnsweringWallet('', undefined),
  request: async ({ method }) => {
    if (method === 'eth_requestAccounts') return [wallet('alice').address]
    throw new WalletError(4001, 'User rejected the request.')
  }
}

/** Sets the File-Expires-In of the relay's responses, or removes it if `seconds` is undefined. */
const answerExpiry = (page: Page, seconds: string | undefined): Promise<unknown> =>
  page.route('**/file', async (route) => {
    const response = await route.fetch()
    const { 'file-expires-in': _, ...headers } = response.headers()
    const exposed = { 'file-expires-in': String(seconds), 'access-control-expose-headers': 'File-Expires-In' }
    await route.fulfill({ response, headers: seconds === undefined ? headers : { ...headers, ...exposed } })
  })

describe('the page of the auth server in a browser', () => {
  const servers = new ServerProcesses({ LOG_LEVEL: 'silent' })
  let [all, browser] = [] as unknown as [ServerProcess, Browser]

  beforeAll(async () => {
    ;[all, browser] = await Promise.all([servers.start({}, [], 'all'), launchBrowser()])
  })
  afterEach(() => Promise.all(browser.contexts().map((context) => context.close())))
  afterAll(async () => {
    await browser.close()
    await servers.killAll()
  })

  /** Logs a user in, in a separate browser profile. */
  const logInAs = async (seed: string): Promise<Page> => {
    const { open } = await openProfile(browser, [wallet(seed)])
    const page = await open(all.serviceUrl)
    await page.click('#wallets button')
    await page.click('#log-in')
    await page.waitForSelector('#sessions li')
    return page
  }

  it('sends a text through the relay and opens its link in another browser; no request contains the key', async () => {
    const sender = await openProfile(browser)
    const page = await sender.open(all.serviceUrl)
    await logInByTabKey(page)
    await answerExpiry(page, '3600')
    await page.fill('#send-text', 'Meet me at the old oak.')
    const sent: string[] = []
    sender.context.on('request', (request) => void sent.push(`${request.url()} ${request.postData() ?? ''}`))
    await page.click('#send-form button')
    await waitForAnswer(page, 'relay', 'Sent.')
    expect(await page.textContent('#sent-until')).toMatch(/^The relay stores it until \w.+ at .+\.$/)
    const link = String(await page.textContent('#sent-link'))
    const [, key = ''] = /^http:\/\/localhost:\d+\/open#r=bafk[a-z2-7]+\.([\w-]{43})&until=\d{10}$/.exec(link) ?? []
    expect(key).toHaveLength(43)
    expect(await page.evaluate(`document.querySelector('#sent-code').naturalWidth > 0`)).toBe(true)

    const receiver = await openProfile(browser)
    receiver.context.on('request', (request) => void sent.push(`${request.url()} ${request.postData() ?? ''}`))
    const receiverPage = await receiver.open(link)
    await receiverPage.click('#open')
    await receiverPage.waitForSelector('#text:text-is("Meet me at the old oak.")')
    expect(sent.filter((text) => text.replace(link, '').includes(key) || text.includes('old oak'))).toEqual([])
    expect([...sender.complaints, ...receiver.complaints]).toEqual([])
  })

  it('sends a binary file, which the recipient saves', async () => {
    const { open, complaints } = await openProfile(browser)
    const page = await open(all.serviceUrl)
    await logInByTabKey(page)
    const buffer = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 256))
    await answerExpiry(page, undefined)
    await page.setInputFiles('#send-file', { name: 'map.bin', mimeType: 'application/octet-stream', buffer })
    await page.click('#send-form button')
    await waitForAnswer(page, 'relay', 'Sent.')
    expect(await page.textContent('#sent-until')).toBe('')
    const request = page.locator('.exchange', { hasText: 'Post the encrypted file' })
    await request.locator('summary').click()
    expect(await request.locator('pre').first().textContent()).toMatch(/"[\w-]{14}…[\w-]{6}"\} \(\d{6} characters\)$/)
    await page.fill('#open-link', String(await page.textContent('#sent-link')))
    await page.click('#open-form button')
    await page.click('#open')
    await page.waitForSelector('#save')
    const saved = await page.evaluate<number[]>(`
      fetch(document.querySelector('#save').href).then((answer) => answer.arrayBuffer(), () => []).then(
        (bytes) => [...new Uint8Array(bytes)])`)
    // The content security policy allows the page to save the file, and not to fetch it.
    expect(saved).toEqual([])
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('#save')])
    expect(download.suggestedFilename()).toBe('map.bin')
    const chunks: Buffer[] = []
    for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer)
    expect(Buffer.concat(chunks).equals(buffer)).toBe(true)
    expect(complaints).toEqual(['policy: connect-src blob'])
  })

  it('stores notes in the vault as ciphertexts, and reports that another tab changed them', async () => {
    const { open, context } = await openProfile(browser)
    const page = await open(all.serviceUrl)
    await logInByTabKey(page)
    for (const note of ['Buy oak', 'Ask Ada']) {
      await page.fill('#note', note)
      await page.click('#note-form button')
      await page.waitForSelector(`#notes p:text-is("${note}")`)
    }
    // A request names the list in full; the middle of the DID is left out.
    expect(await page.locator('.exchange .path').allTextContents()).toContainEqual(
      expect.stringMatching(/^\/did:ethr:rsk:0x[0-9a-f]{4}…[0-9a-f]{4}\/notes$/)
    )
    // A tab that the page opens copies its sessionStorage, with the wallet and the recovery code of the notes.
    const [otherPage] = await Promise.all([context.waitForEvent('page'), page.evaluate(`void open(location.href)`)])
    await otherPage.click('#read-notes')
    await otherPage.waitForSelector('#notes li:nth-child(2)')
    await otherPage.click('#notes li:first-child button:text-is("Edit")')
    await otherPage.fill('#notes textarea', 'Buy two oaks')
    await otherPage.click('#notes button:text-is("Save")')
    await waitForAnswer(otherPage, 'vault', 'Replaced.')
    expect(await otherPage.locator('#notes p').allTextContents()).toEqual(['Ask Ada', 'Buy two oaks'])

    await page.click('#notes li:first-child button:text-is("Delete")')
    await waitForAnswer(page, 'vault', 'Another device or tab has changed the notes.')
    expect(await page.locator('#notes p').allTextContents()).toEqual(['Ask Ada', 'Buy two oaks'])
    await page.click('#notes li:first-child button:text-is("Delete")')
    await waitForAnswer(page, 'vault', 'Deleted.')
    const { url } = all.servers[2]!
    const did = `did:ethr:rsk:${String(await page.textContent('#wallet-address'))}`
    const stored = (await (await fetch(`${url}/${did}/notes`)).json()) as string[]
    expect(stored).toEqual([expect.stringMatching(/^eda1\.[\w-]{16}\.[\w-]+$/)])
  })

  it('logs in to all three servers with one signature of the wallet', async () => {
    const alice = wallet('alice')
    const signed: WalletRequest[] = []
    const request = (walletRequest: WalletRequest): Promise<unknown> => {
      if (walletRequest.method === 'personal_sign') signed.push(walletRequest)
      return alice.request(walletRequest)
    }
    const { open, complaints } = await openProfile(browser, [{ info: alice.info, on: alice.on.bind(alice), request }])
    const page = await open(all.serviceUrl)
    await page.click('#wallets button')
    await page.click('#log-in')
    await page.click('#send-form button:enabled')
    await waitForAnswer(page, 'relay', 'Sent.')
    await page.fill('#note', 'Buy oak')
    await page.click('#note-form button:enabled')
    await waitForAnswer(page, 'vault', 'Added.')
    expect(signed).toHaveLength(1)
    expect(complaints).toEqual([])
  })

  it('shows code that does the same in an app, and copies it by the keyboard', async () => {
    const frank = wallet('frank')
    const { open, context, complaints } = await openProfile(browser, [frank])
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    const page = await open(all.serviceUrl)
    for (const selector of ['.sample summary', '.sample button']) {
      await tabTo(page, selector)
      await page.keyboard.press('Enter')
    }
    await page.waitForSelector('.sample [role=status]:text-is("Copied.")')
    const samples = await page.locator('.sample code').allTextContents()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(samples[0])
    const results = 'globalThis.results = [auth.session.did, answer.status, content, contents]'
    const { outputFiles } = await build({
      stdin: { contents: [...samples, results].join('\n'), resolveDir: root },
      tsconfig: join(root, 'tsconfig.json'),
      bundle: true,
      format: 'esm',
      write: false
    })
    const app = { contentType: 'text/javascript', body: outputFiles[0]!.text }
    await page.route('**/app.js', (route) => route.fulfill(app))
    const shown = await page.evaluate(`import('/app.js').then(() => results)`)
    expect(shown).toEqual([frank.did, 200, 'Hello from my wallet.', ['Buy oak']])
    expect(complaints).toEqual([])
  })

  it('opens the notes in another browser only with their recovery code', async () => {
    const [page, otherPage] = [await logInAs('carol'), await logInAs('carol')]
    await page.fill('#note', 'Buy oak')
    await page.click('#note-form button')
    await page.waitForSelector('#vault-code-new')
    const code = await page.inputValue('#vault-code')
    expect(await otherPage.isVisible('#recovery')).toBe(false)
    await otherPage.click('#read-notes')
    await waitForAnswer(otherPage, 'vault', 'recovery code')
    await otherPage.waitForSelector('#vault-code:focus')
    expect(await findAccessibilityFaults(otherPage)).toEqual([])
    await otherPage.fill('#vault-code', code.toLowerCase().replace('-', ' '))
    await otherPage.click('#read-notes')
    await otherPage.waitForSelector('#notes p:text-is("Buy oak")')
  })

  it('logs in with a passkey: the same user after a reload, and notes without a recovery code', async () => {
    const { open, context, complaints } = await openProfile(browser)
    const page = await open(all.serviceUrl)
    const devTools = await context.newCDPSession(page)
    await devTools.send('WebAuthn.enable')
    const options = {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true
    } as const
    const automatic = { isUserVerified: true, automaticPresenceSimulation: true, hasPrf: true }
    await devTools.send('WebAuthn.addVirtualAuthenticator', { options: { ...options, ...automatic } })
    await page.click('#new-passkey')
    await page.click('#log-in:enabled')
    await page.waitForSelector('#sessions li')
    const did = await page.textContent('#session-did')
    await page.fill('#note', 'Buy oak')
    await page.click('#note-form button')
    await waitForAnswer(page, 'vault', 'Added.')
    await page.click('#log-out')
    await page.evaluate('sessionStorage.clear()')
    await page.reload()
    await page.click('#use-passkey')
    await page.click('#log-in:enabled')
    await page.waitForSelector('#sessions li')
    expect(await page.textContent('#session-did')).toBe(did)
    await page.click('#read-notes')
    await page.waitForSelector('#notes p:text-is("Buy oak")')
    expect(complaints).toEqual([])
  })

  it('deletes only the note that is shown when the list changes during a read', async () => {
    const { open } = await openProfile(browser)
    const page = await open(all.serviceUrl)
    await logInByTabKey(page)
    for (const note of ['first', 'second', 'third']) {
      await page.fill('#note', note)
      await page.click('#note-form button')
      await page.waitForSelector(`#notes p:text-is("${note}")`)
    }
    const [otherPage] = await Promise.all([page.waitForEvent('popup'), page.evaluate(`void open(location.href)`)])
    await otherPage.click('#read-notes')
    await otherPage.waitForSelector('#notes li:nth-child(3)')
    const isRead = (url: URL): boolean => /\/did:ethr:[^/]+\/notes$/.test(decodeURIComponent(url.pathname))
    await page.route(isRead, async (route) => {
      await otherPage.click('#notes li:first-child button:text-is("Delete")')
      await waitForAnswer(otherPage, 'vault', 'Deleted.')
      await route.continue()
    })
    await page.click('#read-notes')
    await waitForAnswer(page, 'vault', 'Read and decrypted.')
    await page.unroute(isRead)
    await page.click('#notes li:last-child button:text-is("Delete")')
    await waitForAnswer(page, 'vault', 'Deleted.')
    expect(await page.locator('#notes p').allTextContents()).toEqual(['second'])
  })

  it.each([
    ['rejecting', wallet('alice').rejecting(), 'rejected'],
    ['busy', wallet('alice').busy(), 'pending'],
    ['locked', createAnsweringWallet('eth_requestAccounts', []), 'returned no account'],
    ['answering garbage for an account', createAnsweringWallet('eth_requestAccounts', [42]), 'returned no account'],
    ['answering nothing', createAnsweringWallet('eth_requestAccounts', null), 'returned no account']
  ])(
    'explains what is wrong with a wallet that is %s, and continues with another',
    async (_what, faultyWallet, text) => {
      const { open, complaints } = await openProfile(browser, [faultyWallet])
      const page = await open(all.serviceUrl)
      await page.click('#wallets button')
      await waitForAnswer(page, 'wallet', text)
      await logInByTabKey(page)
      expect(complaints).toEqual([])
    }
  )

  it.each([
    ['a value that is no signature', createAnsweringWallet('personal_sign', { r: 1 }), 'Your wallet failed'],
    ['a refusal by its user', decliningWallet, 'You declined']
  ])(
    'explains that a wallet answered a login with %s, and lets the user try again',
    async (_what, faultyWallet, text) => {
      const { open } = await openProfile(browser, [faultyWallet])
      const page = await open(all.serviceUrl)
      await page.click('#wallets button')
      await page.click('#log-in')
      await waitForAnswer(page, 'session', text)
      expect(await page.getAttribute('#session-status', 'data-kind')).toBe('error')
      expect(await page.isEnabled('#log-in')).toBe(true)
    }
  )

  it('lists two wallets that announce themselves late', async () => {
    const createLateWallet = (seed: string, afterMs: number) => {
      const lateWallet = wallet(seed)
      return {
        info: lateWallet.info,
        afterMs,
        on: lateWallet.on.bind(lateWallet),
        request: lateWallet.request.bind(lateWallet)
      }
    }
    const { open } = await openProfile(browser, [createLateWallet('alice', 900), createLateWallet('bob', 1_400)])
    const page = await open(all.serviceUrl)
    await page.waitForSelector('#wallets button:nth-child(2)')
    expect(await page.locator('#wallets button').allTextContents()).toEqual(['alice', 'bob'])
  })

  it('logs out when another account is chosen in the wallet, and shows that account', async () => {
    const alice = wallet('alice')
    const { open } = await openProfile(browser, [alice])
    const page = await open(all.serviceUrl)
    await page.click('#wallets button')
    await page.click('#log-in')
    await page.waitForSelector('#sessions li')
    alice.switchAccount()
    await waitForAnswer(page, 'wallet', 'Another account')
    await page.waitForSelector('#signed-out')
    expect(await page.textContent('#wallet-address')).toBe(alice.address)
    await page.click('#log-in')
    await page.waitForSelector('#sessions li')
    expect(await page.textContent('#session-did')).toBe(alice.did)
  })

  it('ends another session of the same user', async () => {
    const [endedPage, page] = [await logInAs('alice'), await logInAs('alice')]
    const before = await page.locator('#sessions li').count()
    await page.click('#sessions li:has-text("Another") button')
    await waitForAnswer(page, 'session', 'Ended.')
    expect(await page.locator('#sessions li').count()).toBe(before - 1)
    // The ended session depends on the order of the list: the loop ends all others.
    while ((await page.locator('#sessions button').count()) > 0) {
      const remaining = await page.locator('#sessions button').count()
      await page.locator('#sessions button').first().click()
      await page
        .locator('#sessions button')
        .nth(remaining - 1)
        .waitFor({ state: 'detached' })
    }
    await endedPage.click('#refresh')
    await endedPage.waitForSelector('#signed-out')
    expect(await endedPage.getAttribute('#session-status', 'data-kind')).toBe('error')
  })

  it('continues after the server restarts between two clicks', async () => {
    const data = temporaryFolder()
    const first = await servers.start({ DATA_DIR: data.path })
    const { open } = await openProfile(browser)
    const page = await open(first.serviceUrl)
    await logInByTabKey(page)
    first.signal('SIGTERM')
    await first.ended
    await page.click('#ask-me')
    await waitForAnswer(page, 'session', 'cannot be reached')
    await servers.start({ DATA_DIR: data.path, PORT: new URL(first.url).port })
    await page.click('#ask-me')
    await waitForAnswer(page, 'session', 'knows the DID')
    await page.click('#refresh')
    await waitForAnswer(page, 'session', 'new tokens')
    data.remove()
  })

  it('reports that it is offline, stays logged in, and continues afterwards', async () => {
    const { open, context } = await openProfile(browser)
    const page = await open(all.serviceUrl)
    await logInByTabKey(page)
    await context.setOffline(true)
    for (const button of ['#ask-me', '#refresh']) {
      await page.click(button)
      await waitForAnswer(page, 'session', 'cannot be reached')
      expect(await page.isVisible('#signed-in')).toBe(true)
    }
    await context.setOffline(false)
    await page.click('#ask-me')
    await waitForAnswer(page, 'session', 'knows the DID')
    await page.reload()
    await page.waitForSelector('#sessions li')
    await page.click('#log-out')
    await waitForAnswer(page, 'session', 'Logged out')
  })
})
