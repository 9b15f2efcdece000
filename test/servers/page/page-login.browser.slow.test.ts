import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { wallet } from 'express-did-auth/testing'
import type { Browser } from 'playwright-core'
import {
  findAccessibilityFaults,
  launchBrowser,
  logInByTabKey,
  openProfile,
  measureOverflow,
  waitForAnswer,
  tabTo
} from '../../support/engines/browser.js'
import { ServerProcesses, type ServerProcess } from '../../support/servers/server-process.js'
import { until } from '../../support/fixtures/until.js'

describe('login on the page of the auth server', () => {
  const servers = new ServerProcesses({ LOG_LEVEL: 'silent' })
  /** Serves a page of another origin. */
  const otherOrigin: Server = createServer((_req, res) =>
    res.setHeader('Content-Type', 'text/html').end('<title>x</title>')
  )
  let [all, withCookies, browser] = [] as unknown as [ServerProcess, ServerProcess, Browser]

  beforeAll(async () => {
    ;[all, withCookies, browser] = await Promise.all([
      servers.start({ DATA_DIR: `${servers.folder}/all` }, [], 'all'),
      servers.start({ DATA_DIR: `${servers.folder}/cookies`, USE_COOKIES: 'true' }),
      launchBrowser(),
      new Promise<void>((resolve) => void otherOrigin.listen(0, '127.0.0.1', resolve))
    ])
  })
  afterEach(() => Promise.all(browser.contexts().map((context) => context.close())))
  afterAll(async () => {
    otherOrigin.closeAllConnections()
    otherOrigin.close()
    await browser.close()
    await servers.killAll()
  })

  it('has its address in the last line that the server logs at startup', async () => {
    await until(() => all.output().includes('"event":"page"'))
    const last = all.output().trim().split('\n').at(-1) ?? ''
    expect(JSON.parse(last)).toMatchObject({
      event: 'page',
      url: all.serviceUrl,
      msg: `open ${all.serviceUrl} in a browser`
    })
  })

  it('tells a user at another address where to open the page', async () => {
    const { open } = await openProfile(browser)
    const ownPage = await open(all.serviceUrl)
    const otherPage = await open(all.serviceUrl.replace('localhost', '127.0.0.1'))
    await otherPage.waitForSelector('#elsewhere')
    expect(await otherPage.innerText('#elsewhere')).toBe(
      `Open the page at ${all.serviceUrl}. Relay and vault refuse it at this address.`
    )
    expect(await ownPage.isVisible('#elsewhere')).toBe(false)
    // A passkey belongs to a host name: at an IP address, the page shows neither its button nor its hint.
    for (const selector of ['#use-passkey', '#passkey-hint'])
      expect([await ownPage.isVisible(selector), await otherPage.isVisible(selector)]).toEqual([true, false])
  })

  it('logs out when the wallet switches its account after a reload', async () => {
    const alice = wallet('alice')
    const { open } = await openProfile(browser, [alice])
    const page = await open(all.serviceUrl)
    await page.click('#wallets button')
    await page.click('#log-in')
    await waitForAnswer(page, 'session', 'Logged in.')
    await page.reload()
    await page.waitForSelector('#signed-in >> visible=true')
    await page.waitForSelector('#wallets button')
    alice.switchAccount()
    await page.waitForSelector('#signed-in', { state: 'hidden' })
  })

  it('works from connecting a wallet to logging out with only the keyboard, and calls no other host', async () => {
    const alice = wallet('alice')
    const { open, requests, complaints } = await openProfile(browser, [alice])
    const page = await open(all.serviceUrl)
    const press = async (selector: string, key = 'Enter'): Promise<void> => {
      await tabTo(page, selector)
      await page.keyboard.press(key)
    }
    await page.waitForSelector('#wallets button')
    await press('#wallets button')
    await page.waitForSelector('#log-in:focus')
    await page.keyboard.press('Enter')
    await page.waitForSelector('#ask-me:focus')
    expect(await page.textContent('#session-did')).toBe(alice.did)
    await page.keyboard.press('Enter')
    await page.waitForSelector('.exchange:has-text("/me") .state:has-text("200")')
    await press('#refresh')
    await page.waitForSelector('.exchange:has-text("/refresh-token") .state:has-text("200")')
    await press('#send-form button')
    await page.waitForSelector('#sent')
    await tabTo(page, '#note')
    await page.keyboard.type('Buy oak')
    await press('#note-form button')
    await page.waitForSelector('#notes li')
    await press('#log-out')
    await page.waitForSelector('#log-in:focus')
    expect(await page.isVisible('#signed-in')).toBe(false)

    const origins = all.servers.map(({ serviceUrl }) => serviceUrl)
    expect(requests.filter((url) => !origins.includes(new URL(url).origin) && !url.startsWith('data:'))).toEqual([])
    expect(complaints).toEqual([])
  })

  it.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 320]
  ] as const)('passes the axe checks in its main states, %s, and fits into %i px', async (colorScheme, width) => {
    // A colour transition can lack contrast for a moment.
    const options = { colorScheme, viewport: { width, height: 800 }, reducedMotion: 'reduce' } as const
    const { open } = await openProfile(browser, [wallet('alice')], options)
    const page = await open(all.serviceUrl)
    const expectNoFault = async (): Promise<void> => {
      expect(await findAccessibilityFaults(page)).toEqual([])
      expect(await measureOverflow(page)).toBe(0)
    }
    await page.waitForSelector('#wallets button')
    await expectNoFault()
    const openAll = `for (const details of document.querySelectorAll('details')) details.open = true`
    await page.evaluate(openAll)
    await expectNoFault()
    await logInByTabKey(page)
    await page.click('#ask-me')
    await page.waitForSelector('#claims-details')
    expect(await page.locator('#sessions li').textContent()).toMatch(
      /^Chrome on Linux.*This session, on this device, since/
    )
    expect(await page.locator('#bound').isVisible()).toBe(true)
    await page.evaluate(openAll)
    await page.click('#send-form button')
    await page.waitForSelector('#sent')
    await page.fill('#note', 'Buy oak')
    await page.click('#note-form button')
    await page.waitForSelector('#notes li')
    await page.click('#vault-step .sample button')
    await page.waitForSelector('#vault-step .sample .status:not(:empty)')
    await expectNoFault()
    await page.setInputFiles('#send-file', { name: 'a', mimeType: '', buffer: Buffer.alloc(7_340_032) })
    await page.click('#send-form button')
    await waitForAnswer(page, 'relay', 'This has 7.0 MiB. Send at most 5.9 MiB.')
    await expectNoFault()
  })

  it("highlights the browser's wallet, or the temporary key if the browser has no wallet", async () => {
    const [withWallet, withoutWallet] = [await openProfile(browser, [wallet('alice')]), await openProfile(browser)]
    const [page, otherPage] = [await withWallet.open(all.serviceUrl), await withoutWallet.open(all.serviceUrl)]
    await page.waitForSelector('#wallets button')
    const createColorScript = (selector: string): string =>
      `getComputedStyle(document.querySelector('${selector}')).backgroundColor`
    const primary = await page.evaluate(createColorScript('#wallets button'))
    expect(await page.evaluate(createColorScript('#use-tab-key'))).not.toBe(primary)
    expect(await otherPage.evaluate(createColorScript('#use-tab-key'))).toBe(primary)
  })

  it.each([
    [1280, ['Choose a key', 'Log in', 'Send a file', 'Store notes']],
    [390, ['Choose a key', 'Log in']]
  ])('opens each step once a user can do it, at %i px after the login %j', async (width, stepsAfterLogin) => {
    const { open } = await openProfile(browser, [], { viewport: { width, height: 844 } })
    const page = await open(all.serviceUrl)
    const readOpenSteps = (): Promise<string[]> => page.locator('.step[open] h2').allTextContents()
    expect(await readOpenSteps()).toEqual(['Choose a key'])
    await page.click('#use-tab-key')
    expect(await readOpenSteps()).toEqual(['Choose a key', 'Log in'])
    await page.click('#log-in')
    await page.waitForSelector('#sessions li')
    expect(await readOpenSteps()).toEqual(stepsAfterLogin)
  })

  it('has a button as wide as the card of the chosen key on a phone', async () => {
    const { open } = await openProfile(browser, [], { viewport: { width: 390, height: 844 } })
    const page = await open(all.serviceUrl)
    await page.click('#use-tab-key')
    const [button, card] = await Promise.all(
      ['#log-in', '#wallet-chosen'].map((selector) => page.locator(selector).boundingBox())
    )
    expect(button?.width).toBe(card?.width)
  })

  it('warns that phones cannot open a localhost link, and hides relay and vault without https', async () => {
    const { open, context } = await openProfile(browser)
    const page = await open(all.serviceUrl)
    await logInByTabKey(page)
    expect(await page.locator('.insecure').first().isVisible()).toBe(false)
    await page.click('#send-form button')
    await page.waitForSelector(
      '#sent-local:text-is("Other devices cannot open this link: localhost is this computer.")'
    )
    await context.addInitScript(`Object.defineProperty(window, 'isSecureContext', { value: false })`)
    for (const path of ['/', '/open']) {
      await page.goto(all.serviceUrl + path)
      await page.evaluate(`document.querySelector('#relay-step')?.toggleAttribute('open', true)`)
      await page.locator('.insecure').first().waitFor()
      expect(await page.locator('#relay-here, #vault-here, #closed').locator('visible=true').count()).toBe(0)
    }
    await page.goto(all.serviceUrl)
    await page.click('#wallet-step .sample summary')
    await page.click('#wallet-step .sample button')
    await page.waitForSelector('.sample [role=status]:has-text("Select the text, and copy it yourself.")')
  })

  it('hides everything of the previous account once another account is chosen', async () => {
    const { open } = await openProfile(browser, [wallet('dora')])
    const page = await open(all.serviceUrl)
    await page.click('#wallets button')
    await page.click('#log-in')
    await page.click('#send-form button:enabled')
    await page.waitForSelector('.actions:has-text("Encrypt and send") + [role=status]:text("Sent.")')
    await page.fill('#note', 'Buy oak')
    await page.click('#note-form button')
    await waitForAnswer(page, 'vault', 'Added.')
    await page.click('#ask-me')
    await waitForAnswer(page, 'session', 'knows the DID')
    const ticks = `[...document.querySelectorAll('.step h2')].map((heading) => getComputedStyle(heading, '::before').content)`
    expect(await page.evaluate(ticks)).toEqual(Array(4).fill('"✓"'))
    await page.click('#other-wallet')
    await page.click('#use-tab-key')
    await page.waitForSelector('#log-in')
    expect((await page.locator('.steps [data-kind=success]').allTextContents()).join('')).toBe('')
    const hidden = page.locator('#sent, #notes li, #claims-details, #recovery')
    expect(await hidden.locator('visible=true').count()).toBe(0)
    expect(await page.inputValue('#vault-code')).toBe('')
    expect(await page.evaluate(ticks)).toEqual(['"✓"', ...Array<string>(3).fill('counter(step)')])
  })

  it('ignores responses that arrive for the previous account', async () => {
    const { open } = await openProfile(browser, [wallet('erin')])
    const page = await open(all.serviceUrl)
    await page.click('#wallets button')
    await page.click('#log-in')
    await page.fill('#note', 'Buy oak')
    await page.click('#note-form button:enabled')
    await waitForAnswer(page, 'vault', 'Added.')
    const releases: (() => void)[] = []
    await page.route(/\/(?:me|file|notes)$/, async (route) => {
      await new Promise<void>((resolve) => releases.push(resolve))
      await route.continue()
    })
    for (const button of ['#ask-me', '#send-form button', '#read-notes']) await page.click(button)
    await until(() => releases.length === 3)
    await page.click('#other-wallet')
    await logInByTabKey(page)
    for (const release of releases) release()
    await page.waitForSelector('[aria-busy=true]', { state: 'detached' })
    const successTexts = await page.locator('.steps [data-kind=success]').allTextContents()
    expect(successTexts.filter((text) => text !== '')).toEqual(['Logged in.'])
    expect(await page.locator('#sent, #notes li').locator('visible=true').count()).toBe(0)
  })

  it('logs out a login that finishes after another wallet was chosen', async () => {
    const { open } = await openProfile(browser, [wallet('dora')])
    const page = await open(all.serviceUrl)
    let release = (): void => undefined
    await page.route('**/auth', async (route) => {
      await new Promise<void>((resolve) => (release = resolve))
      await route.continue()
    })
    await page.click('#wallets button')
    await Promise.all([page.waitForRequest('**/auth'), page.click('#log-in')])
    await page.click('#other-wallet')
    await page.click('#use-tab-key')
    release()
    await page.waitForSelector('[aria-busy=true]', { state: 'detached' })
    expect(await page.isVisible('#session-did')).toBe(false)
    expect((await page.locator('.steps [data-kind=success]').allTextContents()).join('')).toBe('')
  })

  it('shows what the wallet signed, and shows full tokens only on request', async () => {
    const { open } = await openProfile(browser)
    const page = await open(all.serviceUrl)
    await logInByTabKey(page)
    const findExchange = (name: string) => page.locator('.exchange', { hasText: name })
    await findExchange('personal_sign').locator('summary').click()
    expect(await findExchange('personal_sign').locator('pre').first().textContent()).toMatch(
      /^Login to localhost:\d+\nVerification code: [0-9a-f]{14}…[0-9a-f]{6}$/
    )
    const login = findExchange('Exchange the signature')
    await login.locator('summary').click()
    expect(await login.locator('pre').last().textContent()).toMatch(/"accessToken": "[\w-]{14}…[\w-]{6}"/)
    await login.locator('button').click()
    expect(await login.locator('pre').last().textContent()).toMatch(/"accessToken": "[\w-]+\.[\w-]+\.[\w-]+"/)
  })

  it('logs in with an EIP-4361 message if the user selects it, and shows the message', async () => {
    const alice = wallet('alice')
    const { open, complaints } = await openProfile(browser, [alice])
    const page = await open(all.serviceUrl)
    await page.click('#wallets button')
    await page.click('#signed-out summary')
    await page.check('#siwe-text')
    await page.click('#log-in')
    await page.waitForSelector('#sessions li')
    expect(await page.textContent('#session-did')).toBe(alice.did)
    const signing = page.locator('.exchange', { hasText: 'personal_sign' })
    await signing.locator('summary').click()
    expect(await signing.locator('pre').first().textContent()).toMatch(
      /^localhost:\d+ wants you to sign in with your Ethereum account:\n0x[\s\S]*\nNonce: [0-9a-f]{14}…[0-9a-f]{6}\n/
    )
    await page.click('#ask-me')
    await page.waitForSelector('.exchange:has-text("/me") .state:has-text("200")')
    expect(complaints).toEqual([])
  })

  it('logs in with cookies, which another origin of the same site cannot use', async () => {
    const { open, complaints, context } = await openProfile(browser)
    const page = await open(withCookies.serviceUrl)
    expect(await page.textContent('#session-step .sample code')).toContain("mode: 'cookie'")
    await logInByTabKey(page)
    expect((await context.cookies()).map(({ name, httpOnly }) => [name, httpOnly])).toEqual([
      ['authorization', true],
      ['refresh-token', true]
    ])
    const login = page.locator('.exchange', { hasText: 'Exchange the signature' })
    await login.locator('summary').click()
    expect(await login.locator('pre').last().textContent()).toContain('HttpOnly')
    // Another port is another origin of the same site, to which the browser sends the cookies.
    const foreign = await open(`http://localhost:${(otherOrigin.address() as AddressInfo).port}/`)
    const me = JSON.stringify(`${withCookies.serviceUrl}/me`)
    const readScript = `fetch(${me}, { credentials: 'include' }).then((answer) => answer.status, () => 'refused')`
    expect(await foreign.evaluate(readScript)).toBe('refused')
    const [answer] = await Promise.all([
      foreign.waitForResponse(`${withCookies.serviceUrl}/logout`),
      foreign.evaluate(`
        const form = document.createElement('form')
        Object.assign(form, { method: 'post', action: '${withCookies.serviceUrl}/logout' })
        document.body.append(form)
        form.submit()`)
    ])
    const { cookie } = await answer.request().allHeaders()
    expect([answer.status(), cookie]).toEqual([403, expect.stringContaining('refresh-token=')])
    await page.click('#ask-me')
    await page.waitForSelector('.exchange:has-text("/me") .state:has-text("200")')
    expect(complaints).toEqual([])
  })
})
