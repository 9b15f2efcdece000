import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { createDidAuth, es256kSigner } from 'express-did-auth/fetch'
import express, { type Express } from 'express'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { launchBrowser, openProfile } from '../support/engines/browser.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { listenAt } from '../support/fixtures/client-error.js'
import { readDocument, root } from '../support/fixtures/documents.js'
import { challengeSecret, createNumberedWallet, serviceWallet, TestClock } from '../support/fixtures/fixtures.js'
import { testApp } from '../support/servers/test-app.js'

const folder = join(root, '.cache/server-pages')
const alice = createNumberedWallet(1)
const [reloadCode = '', findUserCode = ''] = readDocument('src/guides/SERVER-PAGES.md').blocks.map(({ code }) => code)

beforeAll(() => void mkdirSync(folder, { recursive: true }))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('a page that a link of another site opens', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launchBrowser()
  })
  afterAll(() => browser.close())

  /** Starts the page of the guide, and opens a link to it at another site. */
  async function followLink(prefix: '' | '__Host-' | '__Secure-', isLoggedIn: boolean) {
    const file = join(folder, 'install.ts')
    writeFileSync(file, `export function install(app: any, requireDid: any) {\n${reloadCode}\n}`)
    const { install } = (await import(file)) as { install: (...given: unknown[]) => void }
    const after = (app: Express, requireDid: unknown): void => install(app, requireDid)
    const seen: [site: unknown, hasCookies: boolean][] = []
    const before = (app: Express): void => {
      app.use('/account', ({ headers }, _res, next) => {
        seen.push([headers['sec-fetch-site'], headers.cookie !== undefined])
        next()
      })
    }
    const { app, logInForCookies } = await testApp({ useCookies: true, cookiePrefix: prefix }, { before, after })
    const service = await listenAt(app)
    const url = service.url.replace('127.0.0.1', 'localhost')
    const other = await listenAt(express().get('/', (_req, res) => res.send(`<a href="${url}/account">Account</a>`)))
    afterTest(() => Promise.all([service.close(), other.close()]))
    const { context, open } = await openProfile(browser)
    afterTest(() => context.close())
    if (isLoggedIn) {
      const page = await open(`${url}/missing`)
      const cookies = (await logInForCookies()).split('; ').map((cookie) => /^([^=]+)=(.*)$/.exec(cookie)!)
      await context.addCookies(
        cookies.map(([, name = '', value = '']) => ({
          ...{ name, value, domain: 'localhost', path: '/' },
          ...{ secure: true, httpOnly: true, sameSite: 'Strict' as const }
        }))
      )
      await page.close()
    }
    const page = await open(other.url)
    await page.click('text=Account')
    return { page, seen }
  }

  it.each(['', '__Host-', '__Secure-'] as const)(
    'reloads itself, and then has the cookies (prefix %j)',
    async (prefix) => {
      const { page, seen } = await followLink(prefix, true)
      await page.waitForSelector(`text=Logged in as ${alice.did}`)
      expect(seen).toEqual([
        ['cross-site', false],
        ['same-origin', true]
      ])
    }
  )

  it('shows the login to a visitor, after one reload', async () => {
    const { page, seen } = await followLink('', false)
    await page.waitForSelector('text=Not logged in')
    expect(seen).toHaveLength(2)
  })
})

describe('findUser of a server component', () => {
  it('finds the user, and nobody without a token or with an expired or made-up one', async () => {
    const clock = new TestClock()
    const { logInForCookies } = await testApp({ useCookies: true, clock })
    const required = { challengeSecret, serviceUrl: 'https://service.example', serviceDid: serviceWallet.did }
    const serviceSigner = es256kSigner(serviceWallet.privateKey)
    const didAuth = createDidAuth({ ...required, serviceSigner, clock, useCookies: true })
    const code = findUserCode
      .replace("import { didAuth } from './did-auth.js'", 'const { didAuth } = globalThis as any')
      .replace('findUser(headers)', 'findUser(headers: any)')
      .replace('catch (error)', 'catch (error: any)')
    writeFileSync(join(folder, 'find-user.ts'), code)
    Object.assign(globalThis, { didAuth })
    const { findUser } = (await import(join(folder, 'find-user.ts'))) as {
      findUser: (headers: Headers) => Promise<{ did: string } | undefined>
    }
    const find = (cookie: string) => findUser(new Headers({ cookie, 'x-real-ip': '192.0.2.1' }))
    const cookie = await logInForCookies()
    expect(await find(cookie)).toEqual({ did: alice.did })
    expect(await find('theme=dark')).toBeUndefined()
    expect(await find('authorization=x')).toBeUndefined()
    clock.seconds += 700
    expect(await find(cookie)).toBeUndefined()
  })
})
