import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { wallet } from 'express-did-auth/testing'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { launchBrowser, openProfile } from '../support/engines/browser.js'
import {
  createLinkedProject,
  isAnswering,
  startProgram,
  type LinkedProject
} from '../support/engines/linked-project.js'
import { runIn } from '../support/engines/packed-package.js'
import { freePort } from '../support/faults/tcp-proxy.js'
import { scaled } from '../support/fixtures/time-factor.js'
import { readDocument } from '../support/fixtures/documents.js'
import { until } from '../support/fixtures/until.js'

const alice = wallet('alice')
const text = ['TUTORIAL.md', 'TUTORIAL-2.md', 'TUTORIAL-3.md']
  .map((file) => readDocument(`src/guides/${file}`).text)
  .join('\n')

/** Change of a file that a step tells its reader to make. */
interface Edit {
  path: string
  code: string
  /** Line below which the reader adds the code; undefined if the code is the whole file. */
  below: string | undefined
}

/** Files that a step tells its reader to save, and lines that it tells them to add. */
function listEdits(step: number): Edit[] {
  const section = text.split(/^## /m).find((part) => part.startsWith(`Step ${step}:`))!
  const edits: Edit[] = []
  for (const [, language, code = ''] of section.matchAll(/^```(\w+)\n([^]*?)^```/gm)) {
    if (language === 'sh') continue
    const before = section.slice(0, section.indexOf(`\`\`\`${language!}\n${code}`)).trimEnd()
    const paragraph = before.slice(before.lastIndexOf('\n\n'))
    const [, path = '', below] =
      /(?:Save (?:this|it) as|Replace) `([^`]+)`/.exec(paragraph) ??
      /In `([^`]+)`, add a line below `([^`]+)`/.exec(paragraph)!
    edits.push({ path, code, below })
  }
  return edits
}

let [project, browser, url] = [] as unknown as [LinkedProject, Browser, string]
/** Ports of this run by the port that the tutorial names. */
const ports = new Map<string, string>()
const stops: (() => Promise<void>)[] = []
let notes = ''

const withPorts = (code: string): string => code.replaceAll(/\b30[01]\d\b/g, (port) => ports.get(port) ?? port)

/** Saves the files of a step, as its reader does. */
function save(step: number): void {
  const changed = new Map<string, string>()
  for (const { path, code, below } of listEdits(step)) {
    const before = changed.get(path) ?? (below === undefined ? '' : readFileSync(join(notes, path), 'utf8'))
    if (below !== undefined) expect(before.split(`${below}\n`)).toHaveLength(2)
    changed.set(path, below === undefined ? code : before.replace(`${below}\n`, (line) => line + code))
  }
  for (const [path, code] of changed) {
    mkdirSync(dirname(join(notes, path)), { recursive: true })
    writeFileSync(join(notes, path), withPorts(code))
  }
}

/** Starts a program, which the end of the tests stops, and waits until a URL answers. */
async function start(...program: Parameters<typeof startProgram>): Promise<void> {
  stops.push(await startProgram(...program))
}

beforeAll(async () => {
  ;[project, browser] = await Promise.all([createLinkedProject(), launchBrowser()])
  for (const port of ['3000', '3001', '3002', '3010']) ports.set(port, String(await freePort()))
  url = `http://localhost:${ports.get('3000')!}`
})

afterAll(async () => {
  await browser.close()
  for (const stop of stops.reverse()) await stop()
  project.remove()
})

/** Loads the page, again if it stays empty, because Vite was bundling a new package. */
async function load(page: Page): Promise<void> {
  await until(async () => {
    // Vite may reload the page while it opens, which aborts the navigation.
    const opened = page.goto(url).then(() => page.waitForSelector('h1', { timeout: scaled(5_000) }))
    return opened.then(
      () => true,
      () => false
    )
  })
}

/** Opens the page as a user whose device has passkeys. The browser also has a wallet, which declines each request. */
async function openWithPasskeys(): Promise<Page> {
  const { context } = await openProfile(browser, [alice.rejecting()])
  const page = await context.newPage()
  const cdp = await context.newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  const user = {
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
    automaticPresenceSimulation: true
  }
  await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: { protocol: 'ctap2', ctap2Version: 'ctap2_1', transport: 'internal', hasPrf: true, ...user }
  })
  await load(page)
  return page
}

async function readDid(page: Page): Promise<string> {
  return (await page.textContent('p:has-text("Logged in as ")'))!.replace('Logged in as ', '')
}

async function logInAsAlice(): Promise<Page> {
  const page = await (await openProfile(browser, [alice])).context.newPage()
  await load(page)
  await page.click(`text=Log in with ${alice.info.name}`)
  await page.waitForSelector(`text=Logged in as ${alice.did}`)
  return page
}

describe('the tutorial', () => {
  let byPasskey: Page

  it('step 1: `init` writes a page that logs in', async () => {
    const [, options = ''] = /^npx express-did-auth init notes (.*)$/m.exec(text)!
    const bin = 'node_modules/express-did-auth/dist/bin.js'
    await runIn(project.path, process.execPath, bin, 'init', 'notes', ...options.split(' '))
    notes = join(project.path, 'notes')
    for (const name of ['.env', 'dev.js', 'vite.config.js']) {
      writeFileSync(join(notes, name), withPorts(readFileSync(join(notes, name), 'utf8')))
    }
    await start(notes, ['dev.js'], url)
    const page = await (await openProfile(browser)).open(url)
    await page.click('text=Try it with a temporary key')
    const did = await readDid(page)
    await page.click('text=My profile')
    await page.waitForSelector(`[role=status]:has-text('{"did":"${did}"}')`)
  })

  it('step 2: the wallet shows a text of EIP-4361', async () => {
    save(2)
    await until(() => isAnswering(`${url}/api/siwe/nonce`))
    const page = await logInAsAlice()
    await page.reload()
    await page.waitForSelector(`text=Logged in as ${alice.did}`)
    const rejecting = await (await openProfile(browser, [alice.rejecting()])).open(url)
    await rejecting.click(`text=Log in with ${alice.info.name}`)
    await rejecting.waitForSelector('[role=status]:has-text("declined")')
  })

  it('step 3: a passkey is the same user at its second login', async () => {
    save(3)
    byPasskey = await openWithPasskeys()
    await byPasskey.click('text=Create a passkey')
    const did = await readDid(byPasskey)
    await byPasskey.click('text=Log out')
    await byPasskey.click('text=Log in with my passkey')
    expect(await readDid(byPasskey)).toBe(did)
  })

  it('step 4: relay and vault start, and the session of another `serviceUrl` has ended', async () => {
    save(4)
    const bin = '../../node_modules/express-did-auth-servers/dist/bin.js'
    for (const [name, port] of [['relay', '3001'] as const, ['vault', '3002'] as const]) {
      const serviceUrl = `http://localhost:${ports.get(port)!}`
      const args = [bin, name]
      await start(join(notes, 'servers'), args, `${serviceUrl}/ready`, {
        PORT: ports.get(port)!,
        SERVICE_URL: serviceUrl
      })
    }
    await until(() => isAnswering(`${url}/api/.well-known/jwks.json`))
    await load(byPasskey)
    await byPasskey.click('text=Log in with my passkey')
    await readDid(byPasskey)
  })

  it('step 5: the vault stores notes, which the wallet or passkey of the login opens again', async () => {
    save(5)
    for (const page of [byPasskey, await logInAsAlice()]) {
      await load(page)
      await page.click('text=Open my notes')
      await page.waitForSelector('text=Write down your recovery code')
      await page.fill('input', 'Buy oak')
      await page.click('text=Add')
      await page.waitForSelector('li:has-text("Buy oak")')
      expect(await page.inputValue('input')).toBe('')
      await load(page)
      await page.click('text=Open my notes')
      await page.waitForSelector('li:has-text("Buy oak")')
    }
  })

  it('step 5: a failed write keeps the typed note, and everybody can read the ciphertext of a note', async () => {
    const vault = `http://localhost:${ports.get('3002')!}`
    await byPasskey.route(`${vault}/notes`, (route) => route.abort())
    await byPasskey.fill('input', 'Call Bob')
    await byPasskey.click('text=Add')
    await byPasskey.waitForSelector('[role=status]:not(:empty)')
    expect(await byPasskey.inputValue('input')).toBe('Call Bob')
    await byPasskey.unroute(`${vault}/notes`)
    const [, path = ''] = /^curl http:\/\/localhost:3002\/did:ethr:rsk:0x…(.*)$/m.exec(text)!
    const stored = await fetch(`${vault}/${await readDid(byPasskey)}${path}`)
    expect(await stored.json()).toEqual([expect.stringMatching(/^eda1\./)])
  })

  it('step 6: a link opens a note in another browser, and disappears at the logout', async () => {
    save(6)
    await load(byPasskey)
    await byPasskey.click('text=Open my notes')
    await byPasskey.click('li >> text=Share')
    await byPasskey.waitForSelector('.code svg')
    const link = (await byPasskey.getAttribute('section a', 'href'))!
    const received = await (await openProfile(browser)).open(link)
    await received.click('text=Open it')
    await received.waitForSelector('p:has-text("Buy oak")')
    // The link contains the key, so the next user of the browser must not see it.
    await byPasskey.click('text=Log out')
    await byPasskey.waitForSelector('text=Log in with my passkey')
    expect(await byPasskey.content()).not.toContain('#r=')
  })

  it('step 7: the page is built, its types and the login test pass, and the API serves it', async () => {
    expect(readdirSync(notes)).toContain('share.tsx')
    await runIn(notes, process.execPath, '../node_modules/typescript/bin/tsc')
    expect(await runIn(notes, 'npm', 'test')).toMatch(/ pass 1\n.* fail 0\n/)
    await runIn(notes, process.execPath, '../node_modules/vite/bin/vite.js', 'build', '--logLevel=error')
    const port = String(await freePort())
    const { scripts } = JSON.parse(readFileSync(join(notes, 'package.json'), 'utf8')) as { scripts: { start: string } }
    const [, args = ''] = /^vite build && node (.*)$/.exec(scripts.start)!
    const builtUrl = `http://localhost:${port}`
    await start(notes, args.split(' '), builtUrl, { PORT: port, SERVICE_URL: builtUrl })
    const page = await (await openProfile(browser, [alice])).open(builtUrl)
    await page.click(`text=Log in with ${alice.info.name}`)
    await page.waitForSelector(`text=Logged in as ${alice.did}`)
  })
})
