import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { wallet, walletScript, type PageWallet } from 'express-did-auth/testing'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { launchBrowser } from '../support/engines/browser.js'
import { scaled } from '../support/fixtures/time-factor.js'

let browser: Browser
let server: Server
let url: string

beforeAll(async () => {
  browser = await launchBrowser()
  server = createServer((_req, res) => res.setHeader('Content-Type', 'text/html').end('<title>page</title>'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://localhost:${(server.address() as AddressInfo).port}`
}, scaled(60_000))

afterAll(async () => {
  await browser.close()
  server.closeAllConnections()
  server.close()
})

async function install(context: BrowserContext, wallet: PageWallet, afterMs?: number): Promise<void> {
  const { name, answer, script } = walletScript(wallet, { afterMs })
  await context.exposeFunction(name, answer)
  await context.addInitScript(script)
}

async function open(...wallets: PageWallet[]): Promise<Page> {
  const context = await browser.newContext()
  for (const wallet of wallets) await install(context, wallet)
  const page = await context.newPage()
  await page.goto(url)
  return page
}

/** Evaluates an expression in the page, in which `ethereum` is the wallet. */
const inPage = (page: Page, expression: string): Promise<unknown> => page.evaluate(expression)
const request = (page: Page, method: string, params: unknown[] = []): Promise<unknown> =>
  inPage(
    page,
    `ethereum.request(${JSON.stringify({ method, params })}).catch((error) => [error instanceof Error, error.code])`
  )

describe('walletScript in a browser', () => {
  it('signs as the wallet of the test, and puts no key into the page', async () => {
    const alice = wallet('alice')
    const page = await open(alice)
    expect(await request(page, 'eth_requestAccounts')).toEqual([alice.address])
    const signed = await request(page, 'personal_sign', ['hello', alice.address])
    expect(signed).toBe(await alice.signMessage('hello'))
    expect(walletScript(alice).script).not.toContain(alice.privateKey.slice(2))
  })

  it('throws the errors of the wallet, with their codes', async () => {
    expect(await request(await open(wallet('alice').rejecting()), 'eth_requestAccounts')).toEqual([true, 4001])
    expect(await request(await open(wallet('alice').busy()), 'eth_requestAccounts')).toEqual([true, -32002])
    expect(await request(await open(wallet('alice')), 'eth_sign')).toEqual([true, 4200])
  })

  it('announces each wallet on request, and the first one is window.ethereum', async () => {
    const page = await open(wallet('alice'), wallet('bob', { chainId: 31 }))
    const readEvents = `new Promise((resolve) => {
      const names = []
      addEventListener('eip6963:announceProvider', async ({ detail: { info, provider } }) => {
        names.push([info.name, await provider.request({ method: 'eth_chainId' })])
        if (names.length === 2) resolve(names)
      })
      dispatchEvent(new Event('eip6963:requestProvider'))
    })`
    expect(await inPage(page, readEvents)).toEqual([
      ['alice', '0x1e'],
      ['bob', '0x1f']
    ])
    expect(await request(page, 'eth_chainId')).toBe('0x1e')
  })

  it('can add a wallet late', async () => {
    const context = await browser.newContext()
    await install(context, wallet('alice'), 50)
    await install(context, wallet('bob'), 3_600_000)
    const page = await context.newPage()
    await page.goto(url)
    await page.waitForFunction('window.ethereum')
    const readEvents = `new Promise((resolve) => {
      const names = []
      addEventListener('eip6963:announceProvider', ({ detail }) => names.push(detail.info.name))
      dispatchEvent(new Event('eip6963:requestProvider'))
      resolve(names)
    })`
    expect(await inPage(page, readEvents)).toEqual(['alice'])
  })

  it('reports to every page, also after a reload, that the user switched accounts', async () => {
    const alice = wallet('alice')
    const page = await open(alice)
    await request(page, 'eth_requestAccounts')
    await page.reload()
    const other = await page.context().newPage()
    await other.goto(url)
    const listen = `ethereum.on('accountsChanged', ([address]) => { (window.seen ??= []).push(address) }) && undefined`
    for (const openPage of [page, other]) await inPage(openPage, listen)
    const expected: string[] = []
    for (const seed of ['second', 'third']) {
      alice.switchAccount(seed)
      expected.push(alice.address)
    }
    for (const openPage of [page, other]) {
      await openPage.waitForFunction('window.seen?.length === 2')
      expect(await inPage(openPage, 'seen')).toEqual(expected)
    }
    await other.close()
    alice.switchAccount('fourth')
    expect(await request(page, 'eth_accounts')).toEqual([alice.address])
  })
})
