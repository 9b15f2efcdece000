import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { build } from 'esbuild'
import { accessTokenFor, testConfig, wallet } from 'express-did-auth/testing'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { launchBrowser, openProfile } from '../support/engines/browser.js'
import { recipe, root } from '../support/fixtures/documents.js'
import { freePort } from '../support/faults/tcp-proxy.js'
import { runExample, setEnvironment, type RunningExample } from '../support/servers/run-script.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { until } from '../support/fixtures/until.js'

const alice = wallet('alice')
const slow = join(root, 'test/slow/node_modules')
/** Folder for the recipes as modules of this repository. */
const modules = join(root, '.cache/page-recipes')

beforeAll(() => {
  mkdirSync(modules, { recursive: true })
})
afterAll(() => rmSync(modules, { recursive: true, force: true }))

describe('the React page on the Vite development server, with the API under a path', () => {
  const folder = temporaryFolder()
  const page = realpathSync(folder.path)
  let [api, vite, browser, url] = [] as unknown as [RunningExample, ChildProcess, Browser, string]

  beforeAll(async () => {
    const port = await freePort()
    url = `http://localhost:${port}`
    const restore = setEnvironment({ SERVICE_URL: url })
    writeFileSync(join(modules, 'server.ts'), recipe('express.Router()'))
    api = await runExample(() => import(join(modules, 'server.ts')))
    restore()
    if (!api.server.listening) await once(api.server, 'listening')
    const target = `http://127.0.0.1:${(api.server.address() as AddressInfo).port}`

    const config = recipe('strictPort').replace('http://localhost:3000', target).replace('5173', String(port))
    writeFileSync(join(page, 'vite.config.js'), config)
    writeFileSync(join(page, 'index.html'), '<div id="root"></div><script type="module" src="/main.jsx"></script>')
    writeFileSync(join(page, 'main.jsx'), recipe('useSyncExternalStore'))
    const own = join(page, 'node_modules/express-did-auth-client')
    mkdirSync(own, { recursive: true })
    for (const name of ['react', 'react-dom', 'scheduler']) {
      symlinkSync(join(root, 'test/slow/modal/node_modules', name), join(page, 'node_modules', name))
    }
    // Bundles the sources, so that no outdated build is tested.
    const entryPoints = [join(root, 'src/client/index.ts')]
    await build({ entryPoints, outdir: own, bundle: true, splitting: true, format: 'esm', logLevel: 'error' })
    writeFileSync(join(own, 'package.json'), '{ "type": "module", "exports": "./index.js" }')

    vite = spawn(process.execPath, [join(slow, 'vite/bin/vite.js')], { cwd: page, stdio: 'ignore' })
    const answers = (): Promise<boolean> =>
      fetch(url).then(
        ({ ok }) => ok,
        () => false
      )
    await until(answers)
    browser = await launchBrowser()
  })
  afterAll(async () => {
    await browser.close()
    vite.kill()
    await once(vite, 'exit')
    api.stop()
    folder.remove()
  })

  it('shows login and profile, stays logged in after a reload, and shows a logout of another tab', async () => {
    const { open, complaints } = await openProfile(browser, [alice])
    const shown = await open(url)
    await shown.click('text=Log in with a wallet')
    await shown.waitForSelector(`text=Logged in as ${alice.did}`)
    await shown.click('text=My profile')
    await shown.waitForSelector(`[role=status]:has-text('{"did":"${alice.did}"}')`)
    await shown.reload()
    await shown.waitForSelector(`text=Logged in as ${alice.did}`)
    const other = await open(url)
    await other.click('text=Log out')
    await shown.waitForSelector('text=Not logged in')
    expect(complaints).toEqual([])
  })

  it('tells a visitor without a wallet what to do', async () => {
    const shown = await (await openProfile(browser)).open(url)
    await shown.click('text=Log in with a wallet')
    await shown.waitForSelector('[role=status]:has-text("No wallet found. Install or unlock one.")')
  })
})

describe('the app on Hono', () => {
  it('accepts a user with a token of the service, and refuses a request without one', async () => {
    const code = recipe('new Hono()').replace(/did:ethr:rsk:0x\w+/, testConfig().serviceDid)
    writeFileSync(join(modules, 'hono.ts'), code)
    const { default: app } = (await import(join(modules, 'hono.ts'))) as {
      default: { fetch: (one: Request) => Promise<Response> }
    }
    const ask = async (headers: Record<string, string>): Promise<[number, string]> => {
      const answer = await app.fetch(new Request('https://shop.example/orders', { headers }))
      return [answer.status, await answer.text()]
    }
    const token = await accessTokenFor(alice.did)
    expect(await ask({ Authorization: `DIDAuth ${token}` })).toEqual([200, JSON.stringify({ user: alice.did })])
    expect(await ask({})).toEqual([401, 'Missing access token'])
  })
})
