import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { wallet } from 'express-did-auth/testing'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { launchBrowser, openProfile } from '../../support/engines/browser.js'
import { startProgram } from '../../support/engines/linked-project.js'
import { packAll, root, runIn } from '../../support/engines/packed-package.js'
import { testDatabase } from '../../support/engines/postgres-server.js'
import { freePort } from '../../support/faults/tcp-proxy.js'
import { afterTest } from '../../support/fixtures/after-test.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { scaled } from '../../support/fixtures/time-factor.js'

const alice = wallet('alice')
const alicesButton = `text=Log in with ${alice.info.name}`
const folder = temporaryFolder()
const projects = realpathSync(folder.path)
let browser: Browser

/** Links packages into the folder of all projects, so that each project finds them without an installation. */
function linkPackages(from: string, names: readonly string[]): void {
  for (const name of names) {
    mkdirSync(join(projects, 'node_modules', name, '..'), { recursive: true })
    symlinkSync(realpathSync(join(from, name)), join(projects, 'node_modules', name))
  }
}

beforeAll(async () => {
  const { library } = await packAll()
  // The two commands of a user: one writes the app, and the other one, which it prints, installs the packages.
  const npx = ['exec', '--yes', `--package=${library.tarball}`, '--', 'express-did-auth', 'init', 'app']
  const printed = await runIn(projects, 'npm', ...npx)
  expect(printed).toContain('\n\nRun these two commands:\n  cd app && npm install\n  npm start\n')
  await runIn(join(projects, 'app'), 'npm', 'install', '--no-audit', '--no-fund', '--loglevel=error')
  const installed = join(projects, 'app/node_modules')
  linkPackages(
    installed,
    readdirSync(installed).filter((name) => /^[a-z]/.test(name))
  )
  linkPackages(join(root, 'node_modules'), ['pg', 'better-sqlite3', 'tsx', '@types/node', '@types/express'])
  linkPackages(join(root, 'test/slow/node_modules'), ['vite', 'react', 'react-dom', 'typescript'])
  browser = await launchBrowser()
}, scaled(240_000))

afterAll(async () => {
  await browser.close()
  folder.remove()
})

/** Writes an app with the command of the installed package. */
async function write(name: string, ...options: string[]): Promise<string> {
  await runIn(projects, process.execPath, 'node_modules/express-did-auth/dist/bin.js', 'init', name, ...options)
  return join(projects, name)
}

/** Runs the login test of an app as `npm test` does. */
async function runLoginTest(project: string): Promise<void> {
  // The default reporter depends on the version of Node.
  expect(await runIn(project, 'npm', 'test')).toMatch(/ pass 1\n.* fail 0\n/)
}

interface RunningApp {
  url: string
  stop: () => Promise<void>
}

/** Starts a program of an app until the test ends, and waits until the page is served. */
async function run(project: string, args: string[], env: Record<string, string> = {}): Promise<RunningApp> {
  const port = env.PORT ?? String(await freePort())
  const url = `http://localhost:${port}`
  const stop = await startProgram(project, args, url, { PORT: port, SERVICE_URL: url, ...env })
  afterTest(stop)
  return { url, stop }
}

/** Runs `server.js` of an app until the work is done. Returns what it printed. */
async function useWhileRunning(cwd: string, env: Record<string, string>, work: () => Promise<void>): Promise<string> {
  const child = spawn(process.execPath, ['server.js'], { cwd, env: { ...process.env, ...env } })
  afterTest(() => child.kill())
  let shown = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: Buffer) => (shown += text.toString()))
  await once(child.stderr, 'data')
  await work()
  return shown
}

/** Starts the server of an app with the script `start` of its package.json, without the build before it. */
function start(project: string, env?: Record<string, string>): Promise<RunningApp> {
  const { scripts } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as { scripts: { start: string } }
  const [, args = ''] = /\bnode (.*)/.exec(scripts.start) ?? []
  return run(project, args.split(' '), env)
}

async function expectLogin(page: Page, button: string): Promise<void> {
  await page.click(button)
  await page.waitForSelector('text=Logged in as did:ethr:rsk:0x')
  await page.click('text=My profile')
  await page.waitForSelector('[role=status]:has-text(\'{"did":"did:ethr:rsk:0x\')')
  await page.reload()
  await page.waitForSelector('text=Logged in as did:ethr:rsk:0x')
  await page.click('text=Log out')
  await page.waitForSelector('text=Not logged in')
}

/** Logs in as a user with a wallet. */
async function expectLoginOfAlice({ url }: RunningApp): Promise<void> {
  const { open, context, complaints } = await openProfile(browser, [alice])
  await expectLogin(await open(url), alicesButton)
  expect(complaints).toEqual([])
  await context.close()
}

describe('the app that `init` writes', () => {
  it('logs in a user with a wallet, and one without, and passes its own test', async () => {
    const project = join(projects, 'app')
    await runLoginTest(project)
    const app = await start(project)
    await expectLoginOfAlice(app)
    const { open, context } = await openProfile(browser)
    await expectLogin(await open(app.url), 'text=Try it with a temporary key')
    await context.close()
  })

  it('says which port it uses, that SERVICE_URL differs, and which address to open', async () => {
    const project = join(projects, 'app')
    const [port, other] = [String(await freePort()), String(await freePort())]
    const SERVICE_URL = `http://localhost:${port}`
    const shown = await useWhileRunning(project, { PORT: other, SERVICE_URL }, async () => {
      const { open, context } = await openProfile(browser, [alice])
      const page = await open(`http://localhost:${other}`)
      await page.click(alicesButton)
      await page.waitForSelector(`text=Or open ${SERVICE_URL}.`)
      const atNumber = await open(`http://127.0.0.1:${other}`)
      await atNumber.click(alicesButton)
      await atNumber.waitForSelector(`text=Or open ${SERVICE_URL}.`)
      await context.close()
    })
    // The log of the refusals follows.
    expect(shown.slice(0, shown.indexOf('express-did-auth:'))).toBe(
      `Listening on port ${other}. Open ${SERVICE_URL}\n` +
        `Logins at http://localhost:${other} are refused: set SERVICE_URL=http://localhost:${other} in .env\n`
    )
  })

  it('listens on the port in SERVICE_URL, and says in one line that it is used', async () => {
    const project = join(projects, 'app')
    const busy = createServer().listen(0)
    await once(busy, 'listening')
    afterTest(() => busy.close())
    const port = String((busy.address() as AddressInfo).port)
    const { status, stderr } = spawnSync(process.execPath, ['server.js'], {
      cwd: project,
      env: { ...process.env, SERVICE_URL: `http://localhost:${port}` },
      encoding: 'utf8'
    })
    expect(status).toBe(1)
    expect(stderr.trim().split('\n')).toEqual([
      expect.stringMatching(`EADDRINUSE.*${port}. .*change the number of SERVICE_URL`)
    ])
  })

  it('says what to do in a clone without .env', async () => {
    const project = await write('cloned')
    rmSync(join(project, '.env'))
    const { status, stderr } = spawnSync(process.execPath, ['server.js'], { cwd: project, encoding: 'utf8' })
    expect(status).toBe(1)
    expect(stderr).toMatch(/^The file \.env .* is missing\..*\n {2}cp \.env\.example \.env\n {2}node -p ".*"\n$/)
    // The commands of the message, and of README.md.
    const env = readFileSync(join(project, '.env.example'), 'utf8')
    const newKey = () =>
      spawnSync('node', ['-p', "crypto.randomBytes(32).toString('hex')"], { encoding: 'utf8' }).stdout.trim()
    writeFileSync(join(project, '.env'), env.replaceAll(/(?<==)$/gm, newKey))
    await runLoginTest(project)
  })

  it('stores its tokens in cookies with --cookies', async () => {
    const project = await write('with-cookies', '--cookies')
    await runLoginTest(project)
    const { open, context } = await openProfile(browser, [alice])
    const page = await open((await start(project)).url)
    await page.click(alicesButton)
    await page.waitForSelector(`text=Logged in as ${alice.did}`)
    const cookies = (await context.cookies()).map(({ name }) => name)
    expect(cookies.sort()).toEqual(['authorization', 'refresh-token'])
    await page.reload()
    await page.waitForSelector(`text=Logged in as ${alice.did}`)
    await context.close()
  })

  it('is TypeScript that compiles with --typescript', async () => {
    const project = await write('in-typescript', '--typescript')
    await runIn(project, process.execPath, '../node_modules/typescript/bin/tsc')
    await runLoginTest(project)
    await expectLoginOfAlice(await start(project))
  })

  it.each(['sqlite', 'postgres'])('keeps its sessions over a restart with --store %s', async (store) => {
    const project = await write(store, '--cookies', '--store', store)
    await runLoginTest(project)
    const env: Record<string, string> = { PORT: String(await freePort()) }
    if (store === 'postgres') {
      const database = await testDatabase()
      afterTest(database.drop)
      env.DATABASE_URL = database.url
    }
    const { url, stop } = await start(project, env)
    const { open, context } = await openProfile(browser, [alice])
    const page = await open(url)
    await page.click(alicesButton)
    await page.waitForSelector(`text=Logged in as ${alice.did}`)
    await stop()
    await start(project, env)
    // Each refresh reads the session from the store.
    expect(await page.evaluate(`fetch('/api/refresh-token', { method: 'POST' }).then(({ status }) => status)`)).toBe(
      200
    )
    await context.close()
  })

  it('is built and served with --vite, and its development server passes requests on to the API', async () => {
    const project = await write('with-vite', '--vite', '--cookies')
    await runLoginTest(project)
    await runIn(project, process.execPath, '../node_modules/vite/bin/vite.js', 'build', '--logLevel=error')
    await expectLoginOfAlice(await start(project))
    await expectLoginOfAlice(await run(project, ['dev.js']))
  })
})
