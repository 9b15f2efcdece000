import { walletScript, type PageWallet } from 'express-did-auth/testing'
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from 'playwright-core'
import { scaled } from './time-factor.js'

/** Debian's Chromium runs as root in a container, and makes no calls by itself. */
const ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run']
/** A page that a test waits for longer is broken. */
const WAIT_MILLISECONDS = 30_000

const REPORT_VIOLATIONS = `document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
  console.error('policy: ' + violatedDirective + ' ' + blockedURI)
})`

/** Starts Chromium. Where there is none, .config/jest.config.js leaves the tests in a browser out. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ARGUMENTS })
}

/** A browser profile, and what happened in its pages. */
export interface Profile {
  context: BrowserContext
  /** URLs that its pages asked for. */
  requests: string[]
  /** Errors of scripts, and what the Content-Security-Policy reported. */
  complaints: string[]
  open(url: string): Promise<Page>
}

/** Opens a profile of its own: no cookies, no storage. */
export async function newProfile(
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
  for (const one of wallets) {
    const { name, answer, script } = walletScript(one, { afterMs: one.afterMs })
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

/** Presses the tabulator until an element has the focus, as somebody without a mouse does. */
export async function tabTo(page: Page, selector: string): Promise<void> {
  for (let count = 0; count < 100; count += 1) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`)) return
  }
  throw new Error(`no way to ${selector} by the keyboard`)
}
