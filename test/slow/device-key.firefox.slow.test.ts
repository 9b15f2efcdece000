import { describe } from '@jest/globals'
import { wallet, walletScript } from 'express-did-auth/testing'
import puppeteer, { type Page } from 'puppeteer-core'
import { testDeviceKey } from '../contracts/device-key.js'
import { createClientScript, PAST_THE_TOKEN, type ClientTabs } from '../support/engines/client-tabs.js'
import { scaled } from '../support/fixtures/time-factor.js'

/** Time limit for starting Firefox, for loading a page and for a script in it, in milliseconds. */
const WAIT_MILLISECONDS = 60_000

/** Starts Firefox, which Puppeteer drives by WebDriver BiDi. Its containers are the profiles. */
async function launch() {
  const timeout = scaled(WAIT_MILLISECONDS)
  const executablePath = process.env.FIREFOX ?? '/usr/bin/firefox-esr'
  const browser = await puppeteer.launch({ browser: 'firefox', executablePath, timeout, protocolTimeout: timeout })

  const openPage = async (url: string): Promise<Page> => {
    const page = await (await browser.createBrowserContext()).newPage()
    await page.goto(url, { timeout })
    return page
  }

  const openTabs = async (serviceUrl: string, mode: string): Promise<ClientTabs> => {
    const context = await browser.createBrowserContext()
    const { name, answer, script } = walletScript(wallet('alice'))
    let refreshCount = 0
    const tab = async (): Promise<Page> => {
      const page = await context.newPage()
      page.setDefaultTimeout(timeout)
      page.on('request', (request) => {
        if (request.url().endsWith('/refresh-token')) refreshCount += 1
      })
      await page.exposeFunction(name, answer)
      await page.evaluateOnNewDocument(script)
      await page.evaluateOnNewDocument(createClientScript(mode, true))
      await page.goto(`${serviceUrl}/health`)
      await page.evaluate('client.ready')
      return page
    }
    const first = await tab()
    await first.evaluate('client.logIn({ wallet: ethereum }).then(() => 0)')
    await first.close()
    return {
      tab,
      skip: async (seconds = PAST_THE_TOKEN) => {
        const pages = await context.pages()
        await Promise.all(pages.map((page) => page.evaluate(`void (skipped += ${seconds})`)))
      },
      refreshes: () => refreshCount
    }
  }

  const closeProfiles = async (): Promise<void> => {
    for (const context of browser.browserContexts()) {
      if (context !== browser.defaultBrowserContext()) await context.close()
    }
  }
  return { openTabs, openPage, closeProfiles, close: () => browser.close() }
}

describe('a session that is bound to the device, in Firefox', () => {
  testDeviceKey(launch)
})
