import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { RelayClient } from 'express-did-auth-client/relay'
import { wallet } from 'express-did-auth/testing'
import type { Browser, BrowserContextOptions } from 'playwright-core'
import {
  findAccessibilityFaults,
  launchBrowser,
  openProfile,
  measureOverflow,
  tabTo
} from '../../support/engines/browser.js'
import { ServerProcesses, type ServerProcess } from '../../support/servers/server-process.js'

const PHONE: BrowserContextOptions = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }
const TEXT = 'Meet me at the old oak.'
const UNTIL = 4_102_444_800

describe('the page /open', () => {
  const servers = new ServerProcesses({ LOG_LEVEL: 'silent' })
  let processes = {} as Record<'headers' | 'open reads', ServerProcess>
  let browser: Browser

  beforeAll(async () => {
    const startServer = (name: string, env: Record<string, string>): Promise<ServerProcess> =>
      servers.start({ DATA_DIR: `${servers.folder}/${name}`, ...env }, [], 'all')
    const [headers, openReads, launchedBrowser] = await Promise.all([
      startServer('headers', {}),
      startServer('open-reads', { RELAY_OPEN_READS: 'true' }),
      launchBrowser()
    ])
    processes = { headers, 'open reads': openReads }
    browser = launchedBrowser
  })
  afterEach(() => Promise.all(browser.contexts().map((context) => context.close())))
  afterAll(async () => {
    await browser.close()
    await servers.killAll()
  })

  /** Sends content through the client of the relay. @returns the link to the page */
  async function send(content: string | File, server = processes.headers): Promise<string> {
    const relay = new RelayClient({ url: server.servers[1]!.serviceUrl, wallet: wallet('alice') })
    return `${relay.link(await relay.send(content), `${server.serviceUrl}/open`)}&until=${UNTIL}`
  }

  it.each([
    ['headers', ['/request-auth', '/auth']],
    ['open reads', []]
  ] as const)('shows the text of a link after one tap on a phone, at a server with %s', async (name, login) => {
    const server = processes[name]
    const link = await send(TEXT, server)
    const { open, requests, complaints, context } = await openProfile(browser, [], PHONE)
    const page = await open(link)
    const { host, origin } = new URL(server.servers[1]!.serviceUrl)
    expect(await page.textContent('#title')).toBe('Someone sent you a file')
    expect(await page.textContent('.lead')).toBe('Only this link can open it.')
    expect(await page.textContent('#relay')).toBe(host)
    expect(await page.textContent('#expiry')).toMatch(/Available until\s+(December 31, 2099|January 1, 2100) at /)
    expect(await page.isVisible('#about-login')).toBe(name !== 'open reads')
    expect(requests.filter((url) => url.startsWith(origin))).toEqual([])
    await page.tap('#open')
    await page.waitForSelector(`#text:focus:text-is("${TEXT}")`)
    const [cid = '', key = ''] = /#r=(\w+)\.([\w-]+)&/.exec(link)?.slice(1) ?? []
    const requestedPaths = requests.filter((url) => url.startsWith(origin)).map((url) => url.slice(origin.length))
    expect([...new Set(requestedPaths)]).toEqual([...login, `/file/${cid}`])
    expect(requests.filter((url) => url !== link && url.includes(key))).toEqual([])
    expect([complaints, await context.cookies()]).toEqual([[], []])
    expect(await page.evaluate('localStorage.length + sessionStorage.length')).toBe(0)
  })

  it.each([
    ['Plan.html', 'text/html'],
    ['Makefile', 'text/plain']
  ])('shows name, type and size of a file, and saves it as %s', async (name, type) => {
    const bytes = new Uint8Array(100_000).fill(7)
    const link = await send(new File([bytes], name, { type }))
    const { open, complaints } = await openProfile(browser, [], PHONE)
    const page = await open(link)
    await page.tap('#open')
    await page.waitForSelector('#save:focus')
    const shownDetails = await page.locator('#opened-file dd').allTextContents()
    expect(shownDetails).toEqual([name, type, '98 KiB'])
    const [download] = await Promise.all([page.waitForEvent('download'), page.tap('#save')])
    expect(download.suggestedFilename()).toBe(name)
    const chunks: Buffer[] = []
    for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer)
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true)
    expect(complaints).toEqual([])
  })

  it('explains in one sentence what is wrong with a link', async () => {
    const link = await send(TEXT)
    const { open, context } = await openProfile(browser)
    // The page reports the fault before a tap, and shows no button.
    const page = await open(link.slice(0, -30))
    await page.waitForSelector('#title:text-is("This link is incomplete")')
    expect(await page.innerText('#closed')).toBe(
      'A part of the link is missing, so it cannot open the file. ' +
        'Copy the whole link from the message, or ask the sender for it again.'
    )
    const otherKey = link.replace(/\.[\w-]{43}&.*/, `.${'A'.repeat(43)}&until=1000000000`)
    // Another link in the same tab.
    await page.goto(otherKey)
    await page.waitForSelector('#until-title:text-is("Expired on")')
    await page.click('#open')
    await page.waitForSelector('#open-status:text-is("The content cannot be decrypted. Check the link or key.")')
    await page.goto(link.replace(/bafkrei.{8}/, 'bafkreiaaaaaaaa'))
    await page.click('#open')
    const text = 'The content has expired or never existed. Ask the sender for a new link.'
    await page.waitForSelector(`#open-status:text-is("${text}")`)
    await context.route('**/file/*', (route) => route.fulfill({ status: 451, json: { code: 'ERR_TAKEN_DOWN' } }))
    await page.goto('about:blank')
    await page.goto(link)
    await page.click('#open')
    await page.waitForSelector('#open-status:text-is("The operator removed this file.")')
  })

  it.each([
    ['light', 1280],
    ['dark', 320]
  ] as const)('works with only the keyboard and passes the axe checks (%s, %i px)', async (colorScheme, width) => {
    const name = `${'plan_of_the_garden_'.repeat(8)}.pdf`
    const links = [await send(`${TEXT} https://example.com/${'long'.repeat(50)}`), await send(new File(['x'], name))]
    const { open } = await openProfile(browser, [], {
      colorScheme,
      viewport: { width, height: 600 },
      reducedMotion: 'reduce'
    })
    const broken = `${processes.headers.serviceUrl}/open`
    for (const link of [...links, broken]) {
      const page = await open(link)
      const states = link === broken ? ['#incomplete'] : ['#open', ':is(#text, #save):focus']
      for (const state of states) {
        await page.waitForSelector(state)
        expect(await findAccessibilityFaults(page)).toEqual([])
        expect(await measureOverflow(page)).toBe(0)
        if (state !== '#open') continue
        await tabTo(page, '#open')
        await page.keyboard.press('Enter')
      }
    }
  })
})
