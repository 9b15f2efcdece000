import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { build, type Plugin } from 'esbuild'
import express from 'express'
import { es256kSigner, setupDidAuth } from 'express-did-auth'
import { wallet } from 'express-did-auth/testing'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { launchBrowser, openProfile } from '../support/engines/browser.js'
import { root } from '../support/fixtures/documents.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'

/** Replaces wallet SDKs by an empty module: their stub package lacks the names that are imported. */
const withoutSdks: Plugin = {
  name: 'without-sdks',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(?:porto(?:\/internal)?|@gemini-wallet\/core)$/ }, ({ path }) => ({
      path,
      namespace: 'empty'
    }))
    onLoad({ filter: /^/, namespace: 'empty' }, () => ({ contents: 'module.exports = {}' }))
  }
}

const bundle = (outdir: string): Promise<unknown> =>
  build({
    entryPoints: [join(root, 'test/slow/modal/page.mjs')],
    outdir,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    logLevel: 'error',
    define: { 'process.env.NODE_ENV': '"production"', global: 'globalThis' },
    // The name of the library resolves to its sources.
    alias: {
      'express-did-auth-client/siwe': join(root, 'src/client/siwe/index.ts'),
      'express-did-auth-client': join(root, 'src/client/index.ts')
    },
    plugins: [withoutSdks]
  })

describe('RainbowKit with express-did-auth-client/siwe', () => {
  const folder = temporaryFolder()
  let [server, browser, url] = [] as unknown as [Server, Browser, string]

  beforeAll(async () => {
    await bundle(folder.path)
    browser = await launchBrowser()
    const app = express()
    server = app.listen(0)
    url = `http://localhost:${(server.address() as AddressInfo).port}`
    const requireDid = setupDidAuth(app, {
      challengeSecret: 'ab'.repeat(32),
      serviceUrl: url,
      serviceSigner: es256kSigner('1'.repeat(64)),
      siwe: true,
      useCookies: true,
      sessionPath: '/session'
    })
    await requireDid.ready
    app.get('/me', requireDid, (req, res) => res.json({ did: req.user?.did }))
    app.get('/', (_req, res) => {
      res.send(
        '<link rel="stylesheet" href="/page.css"><div id="root"></div><script type="module" src="/page.js"></script>'
      )
    })
    app.use(express.static(folder.path))
  })
  afterAll(async () => {
    await browser.close()
    server.close()
    folder.remove()
  })

  it('connects the wallet, signs in with one click, stays logged in after a reload, and logs out', async () => {
    const signButton = '[data-testid=rk-auth-message-button]'
    const alice = wallet('alice')
    const { open, context, complaints } = await openProfile(browser, [alice])
    // Blocks requests of the modal to nodes and icon hosts, which the login does not need.
    await context.route(
      ({ href }) => !href.startsWith(url),
      (route) => route.abort()
    )
    const page = await open(url)
    await page.click('button:has-text("Connect Wallet")')
    await page.click(`button:has-text(${JSON.stringify(alice.info.name)})`)
    // The button of the modal does nothing until the nonce has arrived.
    await page.waitForFunction(`Object.entries(document.querySelector('${signButton}') ?? {}).some(
      ([name, value]) => name.startsWith('__reactProps') && value.onClick !== undefined)`)
    await page.click(signButton)
    await page.waitForSelector(`#who:has-text("${alice.did}")`)
    await page.click('#ask')
    await page.waitForSelector(`#me:has-text('{"did":"${alice.did}"}')`)
    await page.reload()
    await page.waitForSelector(`#who:has-text("${alice.did}")`)
    await page.click('[data-testid="rk-account-button"]')
    await page.click('[data-testid="rk-disconnect-button"]')
    await page.waitForSelector('#who:has-text("nobody")')
    await page.click('#ask')
    await page.waitForSelector('#me:has-text("Missing access token")')
    expect(complaints).toEqual([])
  })
})
