import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import type { Browser, Page } from 'playwright-core'
import { askMe, launchBrowser, openTabs, readEndReasons, type Tabs } from '../support/engines/browser.js'
import { ServerProcesses, type ServerProcess } from '../support/servers/server-process.js'

/** Names of the entries in the database of the client. */
const READ_NAMES = `new Promise((resolve) => {
  const opening = indexedDB.open('did-auth', 1)
  opening.onsuccess = () => {
    const request = opening.result.transaction('values').objectStore('values').getAllKeys()
    request.onsuccess = () => (opening.result.close(), resolve(request.result))
  }
})`

const WIPE = `new Promise((resolve, reject) => {
  const deletion = indexedDB.deleteDatabase('did-auth')
  deletion.onsuccess = () => resolve(true)
  deletion.onerror = deletion.onblocked = reject
})`

describe('a session that is bound to the device, in Chromium', () => {
  const servers = new ServerProcesses({ LOG_LEVEL: 'silent', MAX_REQUESTS_PER_TIME_SLOT: '1000000' })
  let [server, withCookies, browser] = [] as unknown as [ServerProcess, ServerProcess, Browser]

  beforeAll(async () => {
    ;[server, withCookies, browser] = await Promise.all([
      servers.start({ DEVICE_BINDING: 'accepted' }),
      servers.start({ DEVICE_BINDING: 'accepted', DATA_DIR: `${servers.folder}/cookies`, USE_COOKIES: 'true' }),
      launchBrowser()
    ])
  })
  afterEach(() => Promise.all(browser.contexts().map((context) => context.close())))
  afterAll(async () => {
    await browser.close()
    await servers.killAll()
  })

  const openPage = async (mode: string): Promise<{ tabs: Tabs; page: Page }> => {
    const { serviceUrl } = mode === 'cookie' ? withCookies : server
    const tabs = await openTabs(browser, serviceUrl, mode, true)
    return { tabs, page: await tabs.tab() }
  }
  const isBound = (page: Page): Promise<unknown> => page.evaluate('client.session?.isDeviceBound')

  describe.each(['header', 'cookie'])('mode %s', (mode) => {
    it('is refreshed after a reload, and shared by two tabs with one key and one refresh', async () => {
      const { tabs, page } = await openPage(mode)
      await page.reload()
      await page.evaluate('client.ready')
      const other = await tabs.tab()
      expect(await Promise.all([isBound(page), isBound(other)])).toEqual([true, true])
      await tabs.skip()
      expect(await Promise.all([askMe(page), askMe(other)])).toEqual([200, 200])
      // The first refresh after a reload has no nonce yet, and is repeated with the one of the refusal.
      expect(tabs.refreshes()).toBe(2)
      expect(await Promise.all([readEndReasons(page), readEndReasons(other)])).toEqual([[], []])
    })

    it('survives a lost response to a refresh', async () => {
      const { tabs, page } = await openPage(mode)
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

    it('ends without a request after a reload if IndexedDB was wiped', async () => {
      const { tabs, page } = await openPage(mode)
      expect(await page.evaluate(WIPE)).toBe(true)
      await page.reload()
      await page.evaluate('client.ready')
      await tabs.skip()
      expect(await askMe(page)).toBe('SESSION_ENDED')
      expect([await readEndReasons(page), tabs.refreshes()]).toEqual([['deviceLost'], 0])
    })

    it('deletes the key at the logout', async () => {
      const { page } = await openPage(mode)
      expect(await page.evaluate(READ_NAMES)).toEqual([expect.stringMatching(/^did-auth:\S+ 0x[0-9a-f]{40} device$/)])
      await page.evaluate('client.logOut()')
      expect(await page.evaluate(READ_NAMES)).toEqual([])
    })
  })

  it('cannot be refreshed by a copy of the storage in another profile, and its owner stays logged in', async () => {
    const { tabs, page } = await openPage('header')
    const stored = await page.evaluate('JSON.stringify({ ...localStorage })')
    const thief = await browser.newContext()
    const place = await thief.newPage()
    await place.goto(`${server.serviceUrl}/health`)
    const status = await place.evaluate(`(async () => {
      const record = Object.values(${String(stored)}).map((text) => { try { return JSON.parse(text) } catch {} })
      const { pair: refreshToken } = record.find((value) => value?.pair)
      const headers = { 'Content-Type': 'application/json', Accept: 'application/problem+json' }
      const body = JSON.stringify({ refreshToken })
      const answer = await fetch('/refresh-token', { method: 'POST', headers, body })
      return answer.status + ' ' + (await answer.json()).code
    })()`)
    expect(status).toBe('401 ERR_DEVICE_PROOF')
    await tabs.skip()
    expect(await askMe(page)).toBe(200)
    expect(await readEndReasons(page)).toEqual([])
  })
})
