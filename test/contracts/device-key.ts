import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { askMe, readEndReasons, type ClientPage, type ClientTabs } from '../support/engines/client-tabs.js'
import { ServerProcesses, type ServerProcess } from '../support/servers/server-process.js'

/** Browser that the tests control. */
export interface DrivenBrowser<Tabs extends ClientTabs> {
  /** Opens a new profile whose pages have a `client` with `deviceKey`. Its first tab has logged in and is closed. */
  openTabs(serviceUrl: string, mode: string): Promise<Tabs>
  /** Opens a page without `client` in a new profile. */
  openPage(url: string): Promise<ClientPage>
  closeProfiles(): Promise<unknown>
  close(): Promise<unknown>
}

/** Expression for the names of the entries in the database of the client. */
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

/** Function that finds the stored session among the texts of a storage. */
const FIND_RECORD = `(storage) => Object.values(storage)
  .map((text) => { try { return JSON.parse(text) } catch {} })
  .find((value) => value?.pair)`

/** Waits until a tab sees the tokens that another tab has stored. Processes of a browser synchronize storage late. */
async function waitForTokens(tab: ClientPage, source: ClientPage): Promise<void> {
  const pair = await source.evaluate(`(${FIND_RECORD})(localStorage).pair`)
  await tab.evaluate(`new Promise((resolve) => {
    const look = () => (${FIND_RECORD})(localStorage).pair === ${JSON.stringify(pair)} ? resolve() : setTimeout(look, 10)
    look()
  })`)
}

/**
 * Defines the tests on a session that is bound to the device.
 *
 * @param defineMore - defines further tests in each mode, which only one driver can run
 */
export function testDeviceKey<Tabs extends ClientTabs>(
  launch: () => Promise<DrivenBrowser<Tabs>>,
  defineMore?: (openTabs: () => Promise<Tabs>) => void
): void {
  const servers = new ServerProcesses({ LOG_LEVEL: 'silent', MAX_REQUESTS_PER_TIME_SLOT: '1000000' })
  let [server, withCookies, browser] = [] as unknown as [ServerProcess, ServerProcess, DrivenBrowser<Tabs>]

  beforeAll(async () => {
    ;[server, withCookies, browser] = await Promise.all([
      servers.start({ DEVICE_BINDING: 'accepted' }),
      servers.start({ DEVICE_BINDING: 'accepted', DATA_DIR: `${servers.folder}/cookies`, USE_COOKIES: 'true' }),
      launch()
    ])
  })
  afterEach(() => browser.closeProfiles())
  afterAll(async () => {
    await browser.close()
    await servers.killAll()
  })

  const openTabs = (mode: string): Promise<Tabs> =>
    browser.openTabs((mode === 'cookie' ? withCookies : server).serviceUrl, mode)
  const isBound = (page: ClientPage): Promise<unknown> => page.evaluate('client.session?.isDeviceBound')

  describe.each(['header', 'cookie'])('mode %s', (mode) => {
    it('is refreshed after a reload, and shared by two tabs with one key and one refresh', async () => {
      const tabs = await openTabs(mode)
      const page = await tabs.tab()
      await page.reload()
      await page.evaluate('client.ready')
      const other = await tabs.tab()
      expect(await Promise.all([isBound(page), isBound(other)])).toEqual([true, true])
      await tabs.skip()
      expect(await askMe(page)).toBe(200)
      await waitForTokens(other, page)
      expect(await askMe(other)).toBe(200)
      // The first refresh after a reload has no nonce yet, and is repeated with the one of the refusal.
      expect(tabs.refreshes()).toBe(2)
      await tabs.skip()
      // A tab that sees the storage late sends another request, which must not end the session.
      expect(await Promise.all([askMe(page), askMe(other)])).toEqual([200, 200])
      expect(await Promise.all([readEndReasons(page), readEndReasons(other)])).toEqual([[], []])
    })

    it('ends without a request after a reload if IndexedDB was wiped', async () => {
      const tabs = await openTabs(mode)
      const page = await tabs.tab()
      expect(await page.evaluate(WIPE)).toBe(true)
      await page.reload()
      await page.evaluate('client.ready')
      expect(await isBound(page)).toBe(true)
      await tabs.skip()
      expect(await askMe(page)).toBe('SESSION_ENDED')
      expect([await readEndReasons(page), tabs.refreshes()]).toEqual([['deviceLost'], 0])
    })

    it('deletes the key at the logout', async () => {
      const page = await (await openTabs(mode)).tab()
      expect(await page.evaluate(READ_NAMES)).toEqual([expect.stringMatching(/^did-auth:\S+ 0x[0-9a-f]{40} device$/)])
      await page.evaluate('client.logOut()')
      expect(await page.evaluate(READ_NAMES)).toEqual([])
    })

    defineMore?.(() => openTabs(mode))
  })

  it('cannot be refreshed by a copy of the storage in another profile, and its owner stays logged in', async () => {
    const tabs = await openTabs('header')
    const page = await tabs.tab()
    const stored = await page.evaluate('JSON.stringify({ ...localStorage })')
    const thief = await browser.openPage(`${server.serviceUrl}/health`)
    const status = await thief.evaluate(`(async () => {
      const { pair: refreshToken } = (${FIND_RECORD})(${String(stored)})
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
}
