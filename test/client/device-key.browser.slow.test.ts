import { describe, expect, it } from '@jest/globals'
import { testDeviceKey } from '../contracts/device-key.js'
import { launchBrowser, openTabs, type Tabs } from '../support/engines/browser.js'
import { askMe } from '../support/engines/client-tabs.js'

async function launch() {
  const browser = await launchBrowser()
  return {
    openTabs: (serviceUrl: string, mode: string): Promise<Tabs> => openTabs(browser, serviceUrl, mode, true),
    openPage: async (url: string) => {
      const page = await (await browser.newContext()).newPage()
      await page.goto(url)
      return page
    },
    closeProfiles: () => Promise.all(browser.contexts().map((context) => context.close())),
    close: () => browser.close()
  }
}

describe('a session that is bound to the device, in Chromium', () => {
  testDeviceKey(launch, (open) => {
    it('survives a lost response to a refresh', async () => {
      const tabs = await open()
      const page = await tabs.tab()
      const proofs: string[] = []
      const keys: string[] = []
      let isLost = false
      await page.route('**/refresh-token', async (route) => {
        const headers = route.request().headers()
        proofs.push(headers.dpop ?? '')
        keys.push(headers['idempotency-key'] ?? '')
        const response = await route.fetch()
        if (isLost || response.status() !== 200) return route.fulfill({ response })
        isLost = true
        await route.abort('connectionreset')
      })
      await tabs.skip()
      expect(await askMe(page)).toBe(200)
      // The first has no nonce, the response to the second is lost, and the third repeats it.
      expect([proofs.length, new Set(proofs).size, new Set(keys).size]).toEqual([3, 3, 1])
    })
  })
})
