import { wallet, walletScript, type PageWallet } from 'express-did-auth/testing'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from 'playwright-core'
import { scaled } from '../fixtures/time-factor.js'
import { createClientScript, PAST_THE_TOKEN, type ClientTabs } from './client-tabs.js'

/** Arguments of Chromium: it can run as root in a container, and makes no network calls of its own. */
const ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run']
/** Time limit for a page, in milliseconds. */
const WAIT_MILLISECONDS = 30_000

const REPORT_VIOLATIONS = `document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
  console.error('policy: ' + violatedDirective + ' ' + blockedURI)
})`

/** Starts Chromium. Without it, .config/jest.config.js excludes the browser tests. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ARGUMENTS })
}

/** Browser profile and the events in its pages. */
export interface Profile {
  context: BrowserContext
  /** URLs that its pages requested. */
  requests: string[]
  /** Script errors, and reports of the Content-Security-Policy. */
  complaints: string[]
  open(url: string): Promise<Page>
}

/** Opens a new profile without cookies and storage. */
export async function openProfile(
  browser: Browser,
  wallets: readonly (PageWallet & { afterMs?: number })[] = [],
  options: BrowserContextOptions = {}
): Promise<Profile> {
  const context = await browser.newContext(options)
  context.setDefaultTimeout(scaled(WAIT_MILLISECONDS))
  const requests: string[] = []
  const complaints: string[] = []
  context.on('request', (request) => void requests.push(request.url()))
  context.on('weberror', (error) => void complaints.push(String(error.error())))
  await context.addInitScript(REPORT_VIOLATIONS)
  context.on('console', (message) => {
    if (message.text().startsWith('policy: ')) complaints.push(message.text())
  })
  for (const wallet of wallets) {
    const { name, answer, script } = walletScript(wallet, { afterMs: wallet.afterMs })
    await context.exposeFunction(name, answer)
    await context.addInitScript(script)
  }
  const open = async (url: string): Promise<Page> => {
    const page = await context.newPage()
    await page.goto(url)
    return page
  }
  return { context, requests, complaints, open }
}

/** Presses the Tab key until an element has the focus, like a user without a mouse. */
export async function tabTo(page: Page, selector: string): Promise<void> {
  for (let count = 0; count < 100; count += 1) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`)) return
  }
  throw new Error(`100 presses of the Tab key did not reach ${selector}`)
}

const axe = readFileSync(
  createRequire(new URL('../../slow/package.json', import.meta.url)).resolve('axe-core/axe.min.js'),
  'utf8'
)

/** Returns the accessibility faults that axe-core finds in a page as it is now. */
export async function findAccessibilityFaults(page: Page): Promise<string[]> {
  type Result = { violations: { id: string; nodes: { target: string[] }[] }[] }
  const { violations } = await page.evaluate<Result>(`${axe}; axe.run()`)
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`)
}

/** Returns the number of pixels by which a page is wider than its window. */
export function measureOverflow(page: Page): Promise<number> {
  return page.evaluate('document.documentElement.scrollWidth - innerWidth')
}

/** Logs in to the page of the auth server with the key of its tab. */
export async function logInByTabKey(page: Page): Promise<void> {
  await page.click('#use-tab-key')
  await page.click('#log-in')
  await page.waitForSelector('#sessions li')
}

/** Waits until the status of a step on the page of the auth server contains a text. */
export function waitForAnswer(page: Page, step: string, text: string): Promise<unknown> {
  return page.waitForSelector(`#${step}-step [role=status]:has-text(${JSON.stringify(text)})`)
}

/** Tabs of one profile in Chromium. */
export interface Tabs extends Profile, ClientTabs<Page> {
  /** Texts of the service's refusals. */
  refusals: readonly string[]
}

/**
 * Opens a profile whose pages have a `client` of the service, which stores its session in `localStorage` or in cookies.
 * A first tab has logged in and is closed again.
 */
export async function openTabs(
  browser: Browser,
  serviceUrl: string,
  mode = 'header',
  deviceKey = false
): Promise<Tabs> {
  const profile = await openProfile(browser, [wallet('alice')])
  const { context, requests, open } = profile
  await context.addInitScript(createClientScript(mode, deviceKey))
  const refusals: string[] = []
  context.on('response', (response) => {
    if (!response.url().endsWith('/refresh-token') || response.status() === 200) return
    void response.text().then((text) => refusals.push(`${response.status()} ${text}`))
  })
  const tab = async (): Promise<Page> => {
    // This page of the service has no scripts.
    const page = await open(`${serviceUrl}/health`)
    await page.evaluate('client.ready')
    return page
  }
  const first = await tab()
  await first.evaluate('client.logIn({ wallet: ethereum }).then(() => 0)')
  await first.close()
  return {
    ...profile,
    tab,
    refusals,
    skip: async (seconds = PAST_THE_TOKEN) => {
      await Promise.all(context.pages().map((page) => page.evaluate(`void (skipped += ${seconds})`)))
    },
    refreshes: () => requests.filter((url) => url.endsWith('/refresh-token')).length
  }
}
