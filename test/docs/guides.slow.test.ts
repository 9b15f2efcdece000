import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Express, RequestHandler } from 'express'
import type { DidAuthConfig, GuardOptions, RequireDid } from 'express-did-auth'
import type { DidAuthClient, PlainWallet } from 'express-did-auth-client'
import type pg from 'pg'
import { afterTest } from '../support/fixtures/after-test.js'
import { readDocument, root } from '../support/fixtures/documents.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'
import { createForm, createMachine, machineConfig } from '../support/fixtures/machines.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { runOn, testDatabase, type TestDatabase } from '../support/engines/postgres-server.js'
import { createPlainWallet, startClientService } from '../support/servers/client-service.js'
import { setEnvironment } from '../support/servers/run-script.js'
import { testApp } from '../support/servers/test-app.js'

const folder = join(root, '.cache/guides')

/** Returns the blocks of a guide in one language. */
const listCode = (file: string, language: string): string[] =>
  readDocument(`src/guides/${file}`)
    .blocks.filter((block) => block.language === language)
    .map(({ code }) => code)

/** Imports code as a module whose function `install` receives `app`, and the `requireDid` of the test's service. */
async function loadServer(
  name: string,
  code: string
): Promise<{ install: (...given: unknown[]) => { pool: pg.Pool } }> {
  const imports = code.split('\n').filter((line) => line.startsWith('import '))
  const rest = code.split('\n').filter((line) => !/^import |^const requireDid = /.test(line))
  const file = join(folder, `${name}.ts`)
  const install = ['export function install(app: any, requireDid: any) {', ...rest, 'return { pool }', '}']
  writeFileSync(file, [...imports, ...install].join('\n'))
  return (await import(file)) as Awaited<ReturnType<typeof loadServer>>
}

beforeAll(() => void mkdirSync(folder, { recursive: true }))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('accounts with several wallets', () => {
  let database: TestDatabase
  let walletCount = 0
  const createWallet = () => createPlainWallet(createNumberedWallet((walletCount += 1)), 30)
  // The page and the service share an origin. Clients of this test reach the service at another address.
  const origin = { domain: 'service.example', serviceUrl: 'https://service.example' }

  beforeAll(async () => {
    database = await testDatabase()
    await runOn(database.url, listCode('ACCOUNTS.md', 'sql')[0]!)
    const code = listCode('ACCOUNTS.md', 'js')[0]!
    expect(code).toContain('url: auth.url,')
    const page = code.replace('linkWallet(auth', 'linkWallet(options, auth')
    writeFileSync(join(folder, 'link.mjs'), page.replace('url: auth.url,', 'url: auth.url, ...options,'))
  })
  afterAll(() => database.drop())

  /** Starts the server of the guide, and returns what a page does there. */
  async function start() {
    const restore = setEnvironment({ DATABASE_URL: database.url })
    const { install } = await loadServer('accounts', listCode('ACCOUNTS.md', 'ts')[0]!)
    const after = (app: Express, requireDid: unknown): void => {
      const { pool } = install(app, requireDid)
      afterTest(() => pool.end())
    }
    const { signedIn, clock } = await startClientService({ siwe: true }, { after })
    restore()
    const page = (await import(join(folder, 'link.mjs'))) as {
      linkWallet: (options: object, auth: DidAuthClient, wallet: PlainWallet) => Promise<void>
    }
    return {
      clock,
      logIn: (wallet = createWallet()) => signedIn({ wallet }),
      linkWallet: (auth: DidAuthClient, wallet: PlainWallet) => page.linkWallet({ ...origin, clock }, auth, wallet)
    }
  }

  const readAccount = async (auth: DidAuthClient) => {
    const answer = await auth.fetch('/account')
    const account = (answer.ok ? await answer.json() : {}) as { id?: string; identities?: string[] }
    return { status: answer.status, ...account }
  }

  it('link a second wallet, with which the user then reaches the same account', async () => {
    const { logIn, linkWallet } = await start()
    const second = createWallet()
    const auth = await logIn()
    const { id } = await readAccount(auth)
    await linkWallet(auth, second)
    const account = await readAccount(await logIn(second))
    expect(account).toMatchObject({ status: 200, id })
    expect(account.identities).toHaveLength(2)
  })

  it('use an invitation once, and refuse a foreign or expired one and a wallet that has an account', async () => {
    const { logIn, linkWallet } = await start()
    const [auth, other, third] = [await logIn(), createWallet(), await logIn()]
    await readAccount(await logIn(other))
    await expect(linkWallet(auth, other)).rejects.toThrow('this wallet has an account already')
    const post = async (client: DidAuthClient, path: string, did: string | undefined): Promise<number> => {
      const headers = { 'Content-Type': 'application/json' }
      const body = JSON.stringify({ did })
      return (await client.fetch(path, { method: 'POST', approve: true, headers, body })).status
    }
    const [inviter, guest] = [auth.session?.did, third.session?.did]
    expect(await post(third, '/identities', inviter)).toBe(409)
    expect(await post(auth, '/invitations', guest)).toBe(204)
    expect(await post(await logIn(), '/identities', inviter)).toBe(409)
    // The invitation is by `auth`, and the approval names another account.
    expect(await post(third, '/identities', guest)).toBe(409)
    await runOn(database.url, `UPDATE invitations SET expires_at = now() - interval '1 second'`)
    expect(await post(third, '/identities', inviter)).toBe(409)
    expect(await post(auth, '/invitations', 'no DID')).toBe(400)
  })

  it('remove a wallet by another one of the account, with its sessions and invitations', async () => {
    const { logIn, linkWallet, clock } = await start()
    const post = async (client: DidAuthClient, path: string, did: string | undefined): Promise<number> => {
      const headers = { 'Content-Type': 'application/json' }
      return (await client.fetch(path, { method: 'POST', approve: true, headers, body: JSON.stringify({ did }) }))
        .status
    }
    const [auth, wallet, guest] = [await logIn(), createWallet(), await logIn()]
    await readAccount(auth)
    await linkWallet(auth, wallet)
    const second = await logIn(wallet)
    const [own, removed] = [auth.session?.did, second.session?.did]
    expect(await post(second, '/invitations', guest.session?.did)).toBe(204)
    expect([await post(auth, '/removals', own), await post(guest, '/removals', removed)]).toEqual([409, 409])
    expect(await post(auth, '/removals', removed)).toBe(204)
    expect(await runOn(database.url, 'SELECT 1 FROM invitations')).toEqual([])
    await runOn(
      database.url,
      `INSERT INTO invitations SELECT '${guest.session?.did}', '${removed}', account,
      now() + interval '1 minute' FROM identities WHERE did = '${own}'`
    )
    expect(await post(guest, '/identities', removed)).toBe(409)
    expect((await readAccount(auth)).identities).toEqual([own])
    clock.seconds += 600
    await expect(second.fetch('/account')).rejects.toMatchObject({ code: 'SESSION_ENDED' })
  })

  it('refuse both requests without an approval', async () => {
    const { logIn } = await start()
    const auth = await logIn()
    const headers = { 'Content-Type': 'application/json' }
    const init = { method: 'POST', headers, body: JSON.stringify({ did: auth.session?.did }) }
    const answers = [await auth.fetch('/invitations', init), await auth.fetch('/identities', init)]
    expect(answers.map(({ status }) => status)).toEqual([403, 403])
  })

  it('apply a ban at the next request', async () => {
    const { logIn } = await start()
    const auth = await logIn()
    const { id } = await readAccount(auth)
    await runOn(database.url, `UPDATE accounts SET is_banned = true WHERE id = ${id}`)
    expect(await readAccount(auth)).toEqual({ status: 403 })
  })
})

/** Runs a block of the guide on roles and bans. Returns the application that its options set up, and its functions. */
async function startRoles(index: number, functions: string, config: Partial<DidAuthConfig> = {}) {
  const file = join(folder, `roles-${index}.ts`)
  const code = listCode('ROLES.md', 'ts')
    [index]!.replaceAll('export async function', 'async function')
    .replace(/^import type \{\}.*$/m, '')
  const [start, end] = [
    'export function install(app: any, setupDidAuth: any, config: any) {',
    `return { ${functions} }\n}`
  ]
  writeFileSync(file, [start, code, end].join('\n'))
  const { install } = (await import(file)) as {
    install: (...given: unknown[]) => { ban: (user: object) => Promise<void> }
  }
  const routes: [string, RequestHandler, RequestHandler][] = []
  let options: Partial<DidAuthConfig> = {}
  const service: { requireDid?: RequireDid } = {}
  const given = {
    with: (guard: GuardOptions) =>
      ((req, res, next) => {
        service.requireDid!.with(guard)(req, res, next)
      }) satisfies RequestHandler,
    sessions: { revokeAll: (did: string) => service.requireDid!.sessions.revokeAll(did) }
  }
  const setup = (_app: unknown, received: Partial<DidAuthConfig>) => {
    options = received
    return given
  }
  const { ban } = install({ get: (...route: (typeof routes)[number]) => routes.push(route) }, setup, config)
  const after = (app: Express): void => routes.forEach(([path, ...handlers]) => void app.get(path, ...handlers))
  const test = await testApp(options, { after })
  service.requireDid = test.requireDid
  return { ...test, ban }
}

describe('the guide on roles and bans', () => {
  it('lets only users with the role pass', async () => {
    const { logIn, get } = await startRoles(0, '')
    const { accessToken } = await logIn()
    await get('/admin/orders', accessToken).expect(403)
    await get('/admin/orders').expect(401)
  })

  it('refuses login and refresh of a banned user, and ends the sessions', async () => {
    const { logIn, refresh, createSignedLogin, post, ban } = await startRoles(1, 'ban')
    const { did } = createNumberedWallet(1)
    const { refreshToken } = await logIn()
    const other = await logIn(createNumberedWallet(2))
    await ban({ canonicalDid: did, address: did.slice(-42) })
    await refresh(refreshToken).expect(401)
    await post('/auth', await createSignedLogin(createNumberedWallet(1))).expect(401)
    await refresh(other.refreshToken).expect(200)
  })

  it('refuses machines whose DID has no address: they may have the key of a banned user', async () => {
    const { post } = await startRoles(1, 'ban', machineConfig)
    const machine = createMachine(1, 'secp256k1')
    for (const iss of [machine.didKey, machine.didJwk])
      await post('/token', createForm(machine.assert({ iss }))).expect(400)
  })
})

describe('the skill for coding agents', () => {
  const { text, blocks } = readDocument('examples/skills/express-did-auth/SKILL.md')
  const [server, test] = blocks.filter(({ language }) => language === 'ts').map(({ code }) => code)

  it('has a name and a description of at most 1,024 characters, as the format requires', () => {
    expect(text).toMatch(/^---\nname: express-did-auth\ndescription: .{100,1024}\n---\n/)
  })

  it('contains a server and a test that work together', async () => {
    const { path, remove } = temporaryFolder()
    afterTest(remove)
    const secrets = { PRIVATE_KEY: '07'.repeat(32), CHALLENGE_SECRET: 'a secret of more than 32 bytes for a test' }
    const restore = setEnvironment({ ...secrets, SESSIONS_FILE: join(path, 'sessions.sqlite') })
    const file = join(folder, 'skill.ts')
    writeFileSync(file, `${server}\n${test}\nexport { requireDid, alice }\n`)
    const { readProfile, requireDid, alice } = (await import(file)) as {
      readProfile: () => Promise<unknown>
      requireDid: { close: () => Promise<void> }
      alice: { did: string }
    }
    restore()
    afterTest(() => requireDid.close())
    expect(await readProfile()).toEqual({ user: alice.did })
  })
})
