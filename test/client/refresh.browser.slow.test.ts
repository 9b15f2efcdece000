import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import type { Browser, Page, Route } from 'playwright-core'
import { launchBrowser, openTabs, type Tabs } from '../support/engines/browser.js'
import { askMe, readEndReasons } from '../support/engines/client-tabs.js'
import { ServerProcesses, type ServerProcess } from '../support/servers/server-process.js'

const ROUNDS = 50

describe('DidAuthClient in browser tabs', () => {
  const servers = new ServerProcesses({ LOG_LEVEL: 'silent', MAX_REQUESTS_PER_TIME_SLOT: '1000000' })
  let [server, withCookies, browser] = [] as unknown as [ServerProcess, ServerProcess, Browser]

  beforeAll(async () => {
    ;[server, withCookies, browser] = await Promise.all([
      servers.start(),
      servers.start({ DATA_DIR: `${servers.folder}/cookies`, USE_COOKIES: 'true' }),
      launchBrowser()
    ])
  })
  afterEach(() => Promise.all(browser.contexts().map((context) => context.close())))
  afterAll(async () => {
    await browser.close()
    await servers.killAll()
  })

  const openPages = async (count: number, mode = 'header'): Promise<{ tabs: Tabs; pages: Page[] }> => {
    const { serviceUrl } = mode === 'cookie' ? withCookies : server
    const tabs = await openTabs(browser, serviceUrl, mode)
    const pages: Page[] = []
    while (pages.length < count) pages.push(await tabs.tab())
    return { tabs, pages }
  }
  const endings = async (pages: readonly Page[]): Promise<string[]> =>
    (await Promise.all(pages.map(readEndReasons))).flat()

  it.each([
    [2, 'header'],
    [10, 'header'],
    [2, 'cookie'],
    [10, 'cookie']
  ])(`shares refreshes among %i concurrent tabs, ${ROUNDS} times without a logout, mode %s`, async (count, mode) => {
    const { tabs, pages } = await openPages(count, mode)
    const statuses = new Map<unknown, number>()
    for (let round = 1; round <= ROUNDS; round += 1) {
      await tabs.skip()
      for (const status of await Promise.all(pages.map(askMe))) statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
    const report = `${count} tabs, mode ${mode}, ${ROUNDS} rounds: ${tabs.refreshes()} refreshes`
    const endedFor = await endings(pages)
    console.info(`${report}, ${endedFor.length} log-outs`, endedFor, tabs.refusals)
    expect([...statuses]).toEqual([[200, count * ROUNDS]])
    expect(await endings(pages)).toEqual([])
    // One refresh per round, and a few more if a tab received new tokens just as it requested some.
    expect(tabs.refreshes()).toBeLessThan(ROUNDS + (ROUNDS * count) / 4)
  })

  it('refreshes once for a hundred requests whose token the service calls expired', async () => {
    const { tabs, pages } = await openPages(1)
    const [page] = pages as [Page]
    let [stale, refusals] = ['', 0]
    await page.route('**/me', async (route) => {
      const { authorization = '' } = route.request().headers()
      stale ||= authorization
      if (authorization !== stale) return route.continue()
      refusals += 1
      const body = JSON.stringify({ title: 'Expired access token', status: 401, code: 'ERR_ACCESS_TOKEN_EXPIRED' })
      await route.fulfill({ status: 401, contentType: 'application/problem+json', body })
    })
    const answers = await page.evaluate(
      `Promise.all(Array.from({ length: 100 }, () => client.fetch('/me').then(({ status }) => status)))`
    )
    expect(answers).toEqual(Array.from({ length: 100 }, () => 200))
    expect([refusals, tabs.refreshes()]).toEqual([100, 1])
  })

  it('repeats a refresh whose response was lost after the commit, with the same key', async () => {
    const { tabs, pages } = await openPages(1)
    const [page] = pages as [Page]
    const keys: string[] = []
    const replayed: string[] = []
    page.on('response', (response) => {
      if (response.url().endsWith('/refresh-token')) replayed.push(response.headers()['idempotent-replayed'] ?? 'no')
    })
    await page.route('**/refresh-token', async (route) => {
      keys.push(route.request().headers()['idempotency-key'] ?? '')
      if (keys.length > 1) return route.continue()
      await route.fetch()
      await route.abort('connectionreset')
    })
    await tabs.skip()
    expect(await askMe(page)).toBe(200)
    expect([keys.length, new Set(keys).size]).toEqual([2, 1])
    expect(keys[0]).toMatch(/^[\w-]{22,}$/)
    expect(replayed).toEqual(['true'])
    expect(await endings(pages)).toEqual([])
  })

  it('continues after a reload between request and response', async () => {
    const { tabs, pages } = await openPages(1)
    const [page] = pages as [Page]
    const isSent = new Promise<Route>((resolve) => {
      void page.route(
        '**/refresh-token',
        async (route) => {
          await route.fetch()
          resolve(route)
        },
        { times: 1 }
      )
    })
    await tabs.skip()
    await page.evaluate(`void client.fetch('/me').catch(() => 0)`)
    await isSent
    await page.reload()
    await page.evaluate('client.ready')
    await tabs.skip()
    expect(await askMe(page)).toBe(200)
    expect(await endings(pages)).toEqual([])
  })

  it('continues in other tabs while the refreshing tab is frozen in the lock', async () => {
    const { tabs, pages } = await openPages(3)
    const [frozen, ...others] = pages as [Page, Page, Page]
    const session = await tabs.context.newCDPSession(frozen)
    const isSent = new Promise<void>((resolve) => {
      void frozen.route('**/refresh-token', async (route) => {
        await route.fetch()
        await session.send('Page.setWebLifecycleState', { state: 'frozen' })
        resolve()
      })
    })
    await tabs.skip()
    await frozen.evaluate(`void client.fetch('/me').catch(() => 0)`)
    await isSent
    const startedAt = performance.now()
    expect(await Promise.all(others.map(askMe))).toEqual([200, 200])
    console.info(`next to a frozen tab: ${Math.round(performance.now() - startedAt)} ms`)
    expect(await endings(others)).toEqual([])
    await session.send('Page.setWebLifecycleState', { state: 'active' })
    await frozen.unrouteAll({ behavior: 'ignoreErrors' })
    expect(await askMe(frozen)).toBe(200)
    expect(await endings(pages)).toEqual([])
  })
})
