import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { wallet } from 'express-did-auth/testing'
import type { Browser, Page } from 'playwright-core'
import { newProfile, type Profile } from './browser.js'

/** Compiled from the sources by .config/compile-for-tests.js. */
const script = readFileSync(join(process.env.TEST_COMPILED ?? '', 'client-script.js'), 'utf8')

/** Seconds by which a page's clock is set ahead, so that every access token of 600 s is due. */
export const PAST_THE_TOKEN = 10_000

/** Tabs of one profile, each with a client of its own, as the pages of an application have them. */
export interface Tabs extends Profile {
  /** Opens a tab of the service's origin, with `client`. */
  tab(): Promise<Page>
  /** Sets the clocks of all clients ahead: their tokens are due. */
  skip(seconds?: number): Promise<void>
  /** Requests for new tokens so far. */
  refreshes(): number
  /** What the service answered to those that it refused. */
  refusals: readonly string[]
}

/**
 * Opens a profile whose pages have a `client` of the service, which keeps its session in `localStorage`, or in cookies. A
 * first tab has logged in.
 */
export async function newTabs(browser: Browser, serviceUrl: string, mode = 'header'): Promise<Tabs> {
  const profile = await newProfile(browser, [wallet('alice')])
  const { context, requests, open } = profile
  await context.addInitScript(`${script};
    globalThis.skipped = 0
    globalThis.ended = []
    const clock = { nowSeconds: () => performance.now() / 1000 + skipped }
    const storage = didAuth.local()
    const onSignedOut = ({ reason }) => ended.push(reason)
    globalThis.client = new didAuth.DidAuthClient({ url: location.origin, mode: '${mode}', clock, storage, onSignedOut })`)
  const refusals: string[] = []
  context.on('response', (response) => {
    if (!response.url().endsWith('/refresh-token') || response.status() === 200) return
    void response.text().then((text) => refusals.push(`${response.status()} ${text}`))
  })
  const tab = async (): Promise<Page> => {
    // An answer of the service without scripts of its own.
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

/** Asks who the user is with the client of a tab: the status, or the code of what the client throws. */
export function askMe(page: Page): Promise<unknown> {
  return page.evaluate(`client.fetch('/me').then(({ status }) => status, ({ code, message }) => code ?? message)`)
}

/** Why sessions have ended in a tab. */
export function endedIn(page: Page): Promise<string[]> {
  return page.evaluate('ended')
}
