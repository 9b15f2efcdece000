import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { createServer, type Server } from 'node:http'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { wallet } from 'express-did-auth/testing'
import type { Browser, Page } from 'playwright-core'
import { launchBrowser, newProfile, tabTo } from '../../support/browser.js'
import { ServerProcesses, type ServerProcess } from '../../support/server-process.js'
import { until } from '../../support/until.js'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface AxeResult {
  violations: { id: string; impact: string; nodes: { target: string[]; failureSummary: string }[] }[]
}

/** What axe-core finds in the page as it is, of those that it calls serious or critical. */
async function seriousFaults(page: Page): Promise<string[]> {
  const { violations } = await page.evaluate<AxeResult>(`${axe}; axe.run()`)
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`)
}

describe('the page in a browser', () => {
  const servers = new ServerProcesses({ LOG_LEVEL: 'silent' })
  /** A page of another origin. */
  const other: Server = createServer((_req, res) => res.setHeader('Content-Type', 'text/html').end('<title>x</title>'))
  let [all, withCookies, browser] = [] as unknown as [ServerProcess, ServerProcess, Browser]

  beforeAll(async () => {
    ;[all, withCookies, browser] = await Promise.all([
      servers.start({ DATA_DIR: `${servers.folder}/all` }, [], 'all'),
      servers.start({ DATA_DIR: `${servers.folder}/cookies`, USE_COOKIES: 'true' }),
      launchBrowser(),
      new Promise<void>((resolve) => void other.listen(0, '127.0.0.1', resolve))
    ])
  })
  afterEach(async () => {
    await Promise.all(browser.contexts().map((context) => context.close()))
  })
  afterAll(async () => {
    other.closeAllConnections()
    other.close()
    await browser.close()
    await servers.killAll()
  })

  it('is the address to open, in the last line of the start', async () => {
    await until(() => all.output().includes('"event":"page"'))
    const last = all.output().trim().split('\n').at(-1) ?? ''
    expect(JSON.parse(last)).toMatchObject({ event: 'page', url: all.serviceUrl, msg: `open ${all.serviceUrl}` })
  })

  it('says where to open it, at another address than its own', async () => {
    const { open } = await newProfile(browser)
    const own = await open(all.serviceUrl)
    const other = await open(all.serviceUrl.replace('localhost', '127.0.0.1'))
    await other.waitForSelector('#elsewhere')
    expect(await other.textContent('#elsewhere')).toBe(
      `Open the page at ${all.serviceUrl}: at this address, relay and vault refuse it.`
    )
    expect(await own.isVisible('#elsewhere')).toBe(false)
  })

  it('goes from connecting a wallet to logging out by the keyboard alone, and to no other host', async () => {
    const alice = wallet('alice')
    const { open, requests, complaints } = await newProfile(browser, [alice])
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

  it.each(['light', 'dark'] as const)('has no serious fault of accessibility, %s', async (colorScheme) => {
    const { open } = await newProfile(browser, [wallet('alice')], { colorScheme })
    const page = await open(all.serviceUrl)
    await page.click('#throw-away')
    await page.click('#log-in')
    await page.waitForSelector('#sessions li')
    await page.click('#claims-details summary')
    await page.click('.exchange summary')
    expect(await seriousFaults(page)).toEqual([])
  })

  it('shows what the wallet signed, and tokens in full only when asked', async () => {
    const { open } = await newProfile(browser)
    const page = await open(all.serviceUrl)
    await page.click('#throw-away')
    await page.click('#log-in')
    await page.waitForSelector('#sessions li')
    const entry = (name: string) => page.locator('.exchange', { hasText: name })
    await entry('personal_sign').locator('summary').click()
    expect(await entry('personal_sign').locator('pre').first().textContent()).toMatch(
      /^Login to localhost:\d+\nVerification code: [0-9a-f]{14}…[0-9a-f]{6}$/
    )
    const login = entry('Exchange the signature')
    await login.locator('summary').click()
    expect(await login.locator('pre').last().textContent()).toMatch(/"accessToken": "[\w-]{14}…[\w-]{6}"/)
    await login.locator('button').click()
    expect(await login.locator('pre').last().textContent()).toMatch(/"accessToken": "[\w-]+\.[\w-]+\.[\w-]+"/)
  })

  it('logs in with the text of EIP-4361 when that is chosen, and shows it', async () => {
    const alice = wallet('alice')
    const { open, complaints } = await newProfile(browser, [alice])
    const page = await open(all.serviceUrl)
    await page.click('#wallets button')
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

  it('logs in with cookies, and another origin of the same site can do nothing with them', async () => {
    const { open, complaints, context } = await newProfile(browser)
    const page = await open(withCookies.serviceUrl)
    await page.click('#throw-away')
    await page.click('#log-in')
    await page.waitForSelector('#sessions li')
    expect((await context.cookies()).map(({ name, httpOnly }) => [name, httpOnly])).toEqual([
      ['authorization', true],
      ['refresh-token', true]
    ])
    const login = page.locator('.exchange', { hasText: 'Exchange the signature' })
    await login.locator('summary').click()
    expect(await login.locator('pre').last().textContent()).toContain('HttpOnly')
    // Another port is another origin, but the same site: the browser sends it the cookies.
    const foreign = await open(`http://localhost:${(other.address() as AddressInfo).port}/`)
    const me = JSON.stringify(`${withCookies.serviceUrl}/me`)
    const read = `fetch(${me}, { credentials: 'include' }).then((answer) => answer.status, () => 'refused')`
    expect(await foreign.evaluate(read)).toBe('refused')
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
