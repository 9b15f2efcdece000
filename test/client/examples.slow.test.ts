import { afterEach, describe, expect, it, jest } from '@jest/globals'
import type { RequestListener, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DidAuthClient } from 'express-did-auth-client'
import request from 'supertest'
import { afterTest } from '../support/fixtures/after-test.js'
import { CookieJar, createPlainWallet, setGlobals } from '../support/servers/client-service.js'
import { root } from '../support/fixtures/documents.js'
import { runExample, setEnvironment } from '../support/servers/run-script.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { until } from '../support/fixtures/until.js'
import { listenAt } from '../support/fixtures/client-error.js'
import { startTestRelay } from '../support/servers/relay-app.js'
import { testVault } from '../support/servers/vault-app.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const alice = createNumberedWallet(1)

async function serve(
  load: () => Promise<unknown>,
  environment: Record<string, string> = {},
  count = 1
): Promise<Server> {
  afterTest(setEnvironment(environment))
  const example = await runExample(load, count)
  afterTest(example.stop)
  await until(() => example.server.address() !== null)
  return example.server
}

const readUrl = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`

interface FakeElement {
  textContent: string
  value: string
  hidden: boolean
  onclick: () => Promise<void>
  onsubmit: (event: object) => Promise<void>
}

/** Fakes the part of a browser that the script of a page uses, with a wallet and cookies. */
function openPage(url: string): (id: string) => FakeElement {
  const elements = new Map<string, FakeElement>()
  const never = (): Promise<void> => Promise.reject(new Error('no script'))
  const getElementById = (id: string): FakeElement => {
    const element = elements.get(id) ?? { textContent: '', value: '', hidden: true, onclick: never, onsubmit: never }
    elements.set(id, element)
    return element
  }
  const values = new Map<string, string>()
  const ethereum = {
    request: async ({ method, params }: { method: string; params?: string[] }): Promise<unknown> => {
      if (method === 'eth_requestAccounts') return [alice.address]
      if (method === 'eth_chainId') return '0x1e'
      // A browser at localhost:3000 signs for that host; this server has another port.
      return alice.personalSign(Buffer.from(params![0]!.slice(2), 'hex').toString().replace(/127.*/, 'localhost:3000'))
    }
  }
  const target = new EventTarget()
  setGlobals({
    window: {},
    document: { getElementById },
    location: new URL(url),
    ethereum,
    fetch: new CookieJar().wrap(fetch),
    localStorage: {
      getItem: (key: string) => values.get(key) ?? null,
      setItem: (key: string, value: string) => values.set(key, value),
      removeItem: (key: string) => values.delete(key)
    },
    addEventListener: target.addEventListener.bind(target),
    removeEventListener: target.removeEventListener.bind(target),
    dispatchEvent: target.dispatchEvent.bind(target)
  })
  return getElementById
}

describe('examples/page-server.ts with its page', () =>
  it.each([
    ['cookies', 'page-cookies.mjs'],
    ['header', 'page-header.mjs']
  ])('shows one state at a time, and each error below its button, with %s', async (MODE, script) => {
    const server = await serve(() => import(`${join(root, 'examples/page-server.ts')}?${MODE}`), { MODE })
    await request(server)
      .get('/')
      .expect(200)
      .expect(/src="\/page.mjs"/)
    await request(server)
      .get('/page.css')
      .expect(200)
      .expect(/light dark/)
    const served = await request(server).get('/page.mjs').expect(200)
    expect(served.text).toContain('DidAuthClient')
    const page = openPage(readUrl(server))
    const shown = () => ['logged-out', 'logged-in'].filter((id) => !page(id).hidden)
    const add = async (text: string): Promise<void> => {
      page('text').value = text
      await page('add').onsubmit({ preventDefault: () => undefined })
    }
    await import(join(root, 'examples', script))
    expect(shown()).toEqual(['logged-out'])

    const { ethereum } = globalThis as { ethereum?: unknown }
    Object.assign(globalThis, { ethereum: undefined })
    await page('log-in').onclick()
    expect([page('log-in-problem').textContent, shown()]).toEqual([
      expect.stringMatching(/^This browser has no wallet\. Install one/),
      ['logged-out']
    ])
    Object.assign(globalThis, { ethereum })
    await page('log-in').onclick()
    expect([page('log-in-problem').textContent, shown()]).toEqual(['', ['logged-in']])
    expect(page('who').textContent).toBe(alice.did)

    await add('Milk')
    expect([page('notes').textContent, page('text').value, page('add-problem').textContent]).toEqual(['Milk', '', ''])
    await add('x'.repeat(200_000))
    expect(page('add-problem').textContent).toBe('The service answered 413. Try again later.')
    expect([page('notes').textContent, page('text').value.length]).toEqual(['Milk', 200_000])

    await page('log-out').onclick()
    expect([shown(), page('who').textContent, page('notes').textContent]).toEqual([['logged-out'], '', ''])
    expect(page('log-in-problem').textContent).toBe('')
  }))

describe('examples/node-client.mjs', () =>
  it('logs in once, and is still logged in on the next run', async () => {
    const server = await serve(() => import('../../examples/page-server.js'), { MODE: 'header' })
    const folder = temporaryFolder()
    const variables = { SERVICE_URL: readUrl(server), LOGIN_DOMAIN: 'localhost:3000', WALLET_KEY: alice.privateKey }
    afterTest(folder.remove, setEnvironment({ ...variables, SESSION_FILE: join(folder.path, 'session.json') }))
    const lines: string[] = []
    jest.spyOn(console, 'log').mockImplementation((...words: unknown[]) => void lines.push(words.join(' ')))
    for (const run of [1, 2]) await import(`${join(root, 'examples/node-client.mjs')}?${run}`)
    expect(lines).toEqual(['logging in', '200 []', 'sessions: 1', 'still logged in', '200 []', 'sessions: 1'])
  }))

describe('examples/behind-a-proxy.ts', () =>
  it('detects the address of its users and the public URL', async () => {
    const proxy = await serve(() => import('../../examples/behind-a-proxy.js'), {}, 2)
    const auth = new DidAuthClient({ url: readUrl(proxy), domain: 'app.example', wallet: createPlainWallet(alice) })
    await auth.logIn()
    const answer = await auth.fetch('/profile', { headers: { 'X-Forwarded-For': '192.0.2.7' } })
    expect(await answer.json()).toEqual({ did: alice.did, ip: '127.0.0.1', https: true })
  }))

afterEach(() => {
  jest.restoreAllMocks()
})

/** Runs an example with a server whose login domain is its address, and returns the output. */
async function printedBy(
  load: () => Promise<unknown>,
  variable: string,
  start: (env: Record<string, string>) => Promise<{ listener: RequestListener; end: () => Promise<void> }>
): Promise<unknown[][]> {
  let listener: RequestListener = () => undefined
  const address = await listenAt((req, res) => listener(req, res))
  const server = await start({ LOGIN_DOMAINS: new URL(address.url).host })
  listener = server.listener
  const undo = setEnvironment({ [variable]: address.url })
  const log = jest.spyOn(console, 'log').mockReturnValue(undefined)
  try {
    await load()
    return log.mock.calls
  } finally {
    undo()
    await address.close()
    await server.end()
  }
}

describe('examples/relay-qr.ts', () =>
  it('prints a QR code and its link, and the text that the recipient reads', async () => {
    const printed = await printedBy(() => import('../../examples/relay-qr.js'), 'RELAY_URL', startTestRelay)
    expect(printed).toEqual([
      [expect.stringMatching(/^[ ▀▄█\n]{500,}$/)],
      [expect.stringMatching(/^https:\/\/app\.example\/open#r=bafkrei[a-z2-7]{52}\.[\w-]{43}$/)],
      ['Bob reads:', 'The treasure lies under the old oak']
    ])
  }))

describe('examples/vault-notes.ts', () =>
  it('stores both notes, which strangers cannot read', async () => {
    const start = async (env: Record<string, string>) => {
      const vault = await testVault(env)
      return { listener: vault.listener, end: () => vault.close() }
    }
    const printed = await printedBy(() => import('../../examples/vault-notes.js'), 'VAULT_URL', start)
    expect(printed).toEqual([
      ['The content was changed elsewhere. Load it again, and repeat your change.'],
      ['Notes:', ['Buy oak', 'Call Bob']],
      ['What everybody can read:', [expect.stringMatching(/^eda1\.[\w-]{16}\./), expect.stringMatching(/^eda1\./)]]
    ])
  }))
