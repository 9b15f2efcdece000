import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import Database from 'better-sqlite3'
import { build } from 'esbuild'
import { getAddress } from 'ethers'
import { wallet } from 'express-did-auth/testing'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { launchBrowser, openProfile } from '../support/engines/browser.js'
import { createLinkedProject, startProgram, type LinkedProject } from '../support/engines/linked-project.js'
import { runIn } from '../support/engines/packed-package.js'
import { freePort } from '../support/faults/tcp-proxy.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { readDocument } from '../support/fixtures/documents.js'

const [alice, bob, carol, dave] = [wallet('alice'), wallet('bob'), wallet('carol'), wallet('dave')]

/** Store of express-session in an SQLite file, in place of the reader's own. */
const SESSION_STORE = `import Database from 'better-sqlite3'
import session from 'express-session'
const db = new Database('old-sessions.db')
db.exec('CREATE TABLE IF NOT EXISTS entries (id TEXT PRIMARY KEY, data TEXT)')
class SqliteSessions extends session.Store {
  get(id, done) {
    const row = db.prepare('SELECT data FROM entries WHERE id = ?').get(id)
    done(null, row && JSON.parse(row.data))
  }
  set(id, data, done) {
    db.prepare('INSERT INTO entries VALUES (?, ?) ON CONFLICT DO UPDATE SET data = excluded.data').run(id, JSON.stringify(data))
    done?.(null)
  }
  destroy(id, done) {
    db.prepare('DELETE FROM entries WHERE id = ?').run(id)
    done?.(null)
  }
}
export const store = new SqliteSessions()
`

/** Script that creates the tables of better-auth with its own migration. */
const CREATE_TABLES = `import { getMigrations } from 'better-auth/db/migration'
import { siwe } from 'better-auth/plugins'
import Database from 'better-sqlite3'
const secret = 'Ks7#mQ2!vX9@pL4$wR8%tY1^uI6&oP3*'
const { runMigrations } = await getMigrations({ secret, database: new Database('app.db'), plugins: [siwe({ domain: '' })] })
await runMigrations()
`

/** Page code of the old apps: it logs in by `window.ethereum` at two routes. */
const OLD_LOGIN = `async (nonceRoute, verifyRoute, init) => {
  const json = { 'Content-Type': 'application/json' }
  const text = await (await fetch(nonceRoute, init)).text()
  const nonce = text.startsWith('{') ? JSON.parse(text).nonce : text
  const [account] = await ethereum.request({ method: 'eth_requestAccounts' })
  const address = kit.getAddress(account)
  const message = new kit.SiweMessage({ domain: location.host, uri: location.origin, version: '1', address, chainId: 137, nonce }).prepareMessage()
  const signature = await ethereum.request({ method: 'personal_sign', params: [message, account] })
  return (await fetch(verifyRoute, { method: 'POST', headers: json, body: JSON.stringify({ message, signature }) })).status
}`

let [project, browser, script] = [] as unknown as [LinkedProject, Browser, Record<string, string>]

const listBlocks = (file: string, language: string): string[] =>
  readDocument(`src/guides/${file}`)
    .blocks.filter((block) => block.language === language)
    .map(({ code }) => code)

/** Bundles the page of a guide as a script: `kit.auth`, `kit.logIn`. */
async function bundlePage(file: string): Promise<string> {
  const page = listBlocks(file, 'js').at(-1)!
  const contents = `${page}\nexport { SiweMessage } from 'siwe'\nexport { getAddress } from 'ethers'`
  const stdin = { contents, resolveDir: project.path }
  const { outputFiles } = await build({ stdin, bundle: true, format: 'iife', globalName: 'kit', write: false })
  return `${outputFiles[0]!.text}; globalThis.kit = kit`
}

beforeAll(async () => {
  ;[project, browser] = await Promise.all([createLinkedProject(), launchBrowser()])
  script = {}
  for (const file of ['FROM-SIWE.md', 'FROM-BETTER-AUTH.md']) script[file] = await bundlePage(file)
})

afterAll(async () => {
  await browser.close()
  project.remove()
})

/** Prepares the app of a guide: its two servers, one after the other, and pages of several users. */
async function prepareApp(file: string) {
  const port = await freePort()
  const url = `http://localhost:${port}`
  const folder = join(project.path, file.replace('.md', '').toLowerCase())
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(folder, 'session-store.js'), SESSION_STORE)
  const [before, after] = listBlocks(file, 'js')
  const toPort = (code: string): string =>
    code.replaceAll('localhost:3000', `localhost:${port}`).replace('listen(3000)', `listen(${port})`)
  writeFileSync(join(folder, 'before.js'), toPort(before!))
  // A route of the reader that changes data.
  const route = "app.post('/note', requireUser, (req, res) => res.json({ id: req.userId }))"
  writeFileSync(join(folder, 'after.js'), toPort(after!).replace('app.listen(', `${route}\napp.listen(`))
  const hex = '01'.repeat(32)
  const secrets = {
    SESSION_SECRET: hex,
    BETTER_AUTH_SECRET: 'Ks7#mQ2!vX9@pL4$wR8%tY1^uI6&oP3*',
    PRIVATE_KEY: hex,
    CHALLENGE_SECRET: hex
  }
  const run = async (name: string): Promise<() => Promise<void>> => {
    const isRefused = ({ status }: Response): boolean => status === 401
    const stop = await startProgram(folder, [name], `${url}/me`, { ...secrets, SERVICE_URL: url }, isRefused)
    afterTest(stop)
    return stop
  }
  const openPage = async (user: typeof alice): Promise<Page> => {
    const { context, open } = await openProfile(browser, [user])
    afterTest(() => context.close())
    await context.addInitScript(script[file]!)
    const page = await open(`${url}/me`)
    await page.evaluate(`addEventListener('eip6963:announceProvider', ({ detail }) => (globalThis.ethereum = detail.provider))
      dispatchEvent(new Event('eip6963:requestProvider'))`)
    return page
  }
  return { url, folder, run, openPage }
}

const readMe = (page: Page): Promise<{ id?: unknown }> =>
  page.evaluate(`fetch('/me').then((answer) => (answer.ok ? answer.json() : {}))`)

/** Gives Dave's address to two users of better-auth. Returns the row in which the guide's check reports it. */
function disputeAddress(db: Database.Database, userId: unknown): object[] {
  const now = new Date(0).toISOString()
  db.prepare(`INSERT INTO "user" VALUES ('other', 'other', 'other@example.com', 0, NULL, ?, ?)`).run(now, now)
  const add = db.prepare('INSERT INTO "walletAddress" VALUES (?, ?, ?, ?, 1, ?)')
  add.run('first', userId, getAddress(dave.address), 1, now)
  add.run('second', 'other', getAddress(dave.address), 137, now)
  return [{ 'lower("address")': dave.address }]
}

describe.each([
  {
    file: 'FROM-SIWE.md',
    oldLogin: `(${OLD_LOGIN})('/nonce', '/verify', {})`,
    loginWithoutNonce: `(${OLD_LOGIN})('data:,0123456789', '/verify', {})`,
    newLogin: `ethereum.request({ method: 'eth_requestAccounts' }).then(([address]) => kit.logIn({
      address,
      chainId: 137,
      signMessage: (text) => ethereum.request({ method: 'personal_sign', params: [text, address] })
    }))`
  },
  {
    file: 'FROM-BETTER-AUTH.md',
    oldLogin: `(${OLD_LOGIN})('/api/auth/siwe/nonce', '/api/auth/siwe/verify', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' })`,
    loginWithoutNonce: `(${OLD_LOGIN})('data:,0123456789', '/api/auth/siwe/verify', {})`,
    newLogin: 'kit.logIn(ethereum)'
  }
])('the guide $file', ({ file, oldLogin, loginWithoutNonce, newLogin }) => {
  it('keeps users and open sessions, and the old code finds its new users after a return', async () => {
    const { url, folder, run, openPage } = await prepareApp(file)
    if (file === 'FROM-BETTER-AUTH.md') {
      writeFileSync(join(folder, 'migrate.js'), CREATE_TABLES)
      await runIn(folder, process.execPath, 'migrate.js')
    }
    const stopBefore = await run('before.js')
    const [openedBefore, returning] = [await openPage(alice), await openPage(alice)]
    const [closing, left] = [await openPage(alice), await openPage(alice)]
    for (const page of [openedBefore, closing, left]) expect(await page.evaluate(oldLogin)).toBe(200)
    expect(await returning.evaluate(loginWithoutNonce)).toBe(401)
    const { id } = await readMe(openedBefore)
    expect(id).toBeDefined()
    // The SQL runs while the old code is in use, so another user joins after it.
    const db = new Database(join(folder, 'app.db'))
    const disputed = file === 'FROM-BETTER-AUTH.md' ? disputeAddress(db, (await readMe(left)).id) : []
    const [migration = '', check] = listBlocks(file, 'sql').reverse()
    if (check !== undefined) expect(db.prepare(check).all()).toEqual(disputed)
    db.exec(migration)
    const [joining, joined] = [await openPage(carol), await openPage(carol)]
    expect(await joining.evaluate(oldLogin)).toBe(200)
    const joinedId = (await readMe(joining)).id
    await stopBefore()

    const stopAfter = await run('after.js')
    const Cookie = (await openedBefore.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
    const sendFrom = async (site: string, method: string, path: string): Promise<number> =>
      (await fetch(url + path, { method, headers: { Cookie, 'Sec-Fetch-Site': site } })).status
    // Another site gets neither a write nor a logout with the old cookie, but links to the app work.
    for (const site of ['cross-site', 'same-site']) {
      expect(await sendFrom(site, 'POST', '/note')).toBe(403)
      expect(await sendFrom(site, 'DELETE', '/old-session')).toBe(403)
      expect(await sendFrom(site, 'GET', '/me')).toBe(200)
    }
    for (const site of ['same-origin', 'none']) expect(await sendFrom(site, 'POST', '/note')).toBe(200)
    expect(await readMe(openedBefore)).toEqual({ id })
    await returning.evaluate(`${newLogin}.then(() => 0)`)
    expect(await returning.evaluate('kit.loadMe()')).toEqual({ id })
    await joined.evaluate(`${newLogin}.then(() => 0)`)
    expect(await readMe(joined)).toEqual({ id: joinedId })
    if (disputed.length > 0) {
      const refused = await openPage(dave)
      const refusal = await refused.evaluate(`${newLogin}.then(() => 'logged in', ({ message }) => message)`)
      expect(refusal).toContain('This address belongs to several users.')
      db.exec(migration)
    }
    const newcomer = await openPage(bob)
    await newcomer.evaluate(`${newLogin}.then(() => 0)`)
    const newId = (await readMe(newcomer)).id
    expect(newId).not.toBe(id)
    expect(await newcomer.evaluate('kit.auth.session.did')).toBe(`did:ethr:${bob.address}`)

    // The server ends an old session at logout, and when another user of the same browser logs in.
    await closing.evaluate('kit.logOut().then(() => 0)')
    expect(await readMe(closing)).toEqual({})
    const shared = await openPage(bob)
    await shared.context().addCookies(await left.context().cookies())
    expect(await readMe(shared)).toEqual({ id })
    await shared.evaluate(`${newLogin}.then(() => 0)`)
    expect(await readMe(shared)).toEqual({ id: newId })
    expect(await readMe(left)).toEqual({})
    await shared.evaluate('kit.logOut().then(() => 0)')
    expect(await readMe(shared)).toEqual({})
    await stopAfter()

    await run('before.js')
    expect(await readMe(openedBefore)).toEqual({ id })
    expect(await newcomer.evaluate(oldLogin)).toBe(200)
    expect(await readMe(newcomer)).toEqual({ id: newId })
    if (disputed.length > 0) {
      const [endSessions = ''] = /DELETE FROM session .*\?/.exec(readDocument(`src/guides/${file}`).text)!
      db.prepare(endSessions).run(id)
      expect(await readMe(openedBefore)).toEqual({})
    }
    db.close()
  })
})
