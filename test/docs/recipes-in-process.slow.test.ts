import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import type { Express } from 'express'
import { accessTokenFor, testConfig, wallet } from 'express-did-auth/testing'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type pg from 'pg'
import request from 'supertest'
import { readDocument, recipe, root } from '../support/fixtures/documents.js'
import { runOn, testDatabase, type TestDatabase } from '../support/engines/postgres-server.js'
import { setEnvironment } from '../support/servers/run-script.js'

const folder = join(root, '.cache/recipes')
const alice = wallet('alice')

/** Imports a recipe as a module, with lines that its reader already has. */
async function load(name: string, lines: string[]): Promise<Record<string, unknown>> {
  const file = join(folder, `${name}.ts`)
  writeFileSync(file, lines.join('\n'))
  return (await import(file)) as Record<string, unknown>
}

beforeAll(() => {
  mkdirSync(folder, { recursive: true })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

it('each recipe has at most 25 lines', () => {
  const lengths = readDocument('src/RECIPES.md').blocks.map(({ code }) => code.trimEnd().split('\n').length)
  expect(lengths.length).toBeGreaterThan(6)
  expect(Math.max(...lengths)).toBeLessThanOrEqual(25)
})

describe('the route of Next.js', () => {
  it('accepts a user with a token of the service, and refuses a missing token and a foreign one', async () => {
    const { serviceDid } = testConfig()
    const code = recipe('export async function GET').replace(/did:ethr:rsk:0x\w+/, serviceDid)
    const { GET } = (await load('route', [code])) as { GET: (one: Request) => Promise<Response> }
    const ask = async (headers: Record<string, string>): Promise<[number, string]> => {
      const answer = await GET(new Request('https://shop.example/api/orders', { headers }))
      return [answer.status, await answer.text()]
    }
    const [good, foreign] = await Promise.all([
      accessTokenFor(alice.did),
      accessTokenFor(alice.did, {}, { ...testConfig(), serviceUrl: 'https://other.example' })
    ])
    expect(await ask({ Authorization: `Bearer ${good}` })).toEqual([200, JSON.stringify({ user: alice.did })])
    expect(await ask({})).toEqual([401, 'Missing access token'])
    expect(await ask({ Authorization: `Bearer ${foreign}` })).toEqual([401, 'Invalid access token'])
  })
})

describe('accounts in a database', () => {
  let [database, app, pool] = [] as unknown as [TestDatabase, Express, pg.Pool]

  beforeAll(async () => {
    database = await testDatabase()
    const code = recipe('FIND_OR_CREATE')
    await runOn(database.url, /CREATE TABLE accounts .*/.exec(code)![0])
    const restore = setEnvironment({ DATABASE_URL: database.url })
    const before = [
      "import express from 'express'",
      "import { setupDidAuth } from 'express-did-auth'",
      "import { testConfig } from 'express-did-auth/testing'",
      'const log = () => undefined',
      'const config = { ...testConfig(), logger: { info: log, warn: log, error: log } }',
      'export const app = express()'
    ]
    const module = await load('accounts', [...before, code, 'export { pool }'])
    restore()
    ;[app, pool] = [module.app as Express, module.pool as pg.Pool]
  })
  afterAll(async () => {
    await pool.end()
    await database.drop()
  })

  const enter = async (way: 'auth' | 'signup'): Promise<{ accessToken: string; refreshToken: string }> => {
    const asked = await request(app).post(`/request-${way}`).send({ did: alice.did })
    const { challenge } = asked.body as { challenge: string }
    const sig = await alice.signMessage(`Login to localhost:3000\nVerification code: ${challenge}`)
    const answer = await request(app).post(`/${way}`).send({ did: alice.did, sig })
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
    return answer.body as { accessToken: string; refreshToken: string }
  }

  it('keep a session while the database restarts: failed queries are 500, and the process survives', async () => {
    const { refreshToken } = await enter('auth')
    const refresh = async (): Promise<number> =>
      (await request(app).post('/refresh-token').send({ refreshToken })).status
    const query = jest.spyOn(pool, 'query') as unknown as jest.Mock<() => Promise<never>>
    query.mockRejectedValueOnce(new Error('Connection terminated unexpectedly'))
    expect(await refresh()).toBe(500)
    expect(await refresh()).toBe(200)
    const printed = jest.spyOn(console, 'error').mockReturnValue()
    // pg emits this when an idle connection is cut. Without a listener, it throws.
    pool.emit('error', new Error('terminating connection'), undefined)
    expect(printed.mock.calls).toEqual([['terminating connection']])
    jest.restoreAllMocks()
  })

  it('assign one number per user for login and sign-up; a ban applies to both and to a refresh', async () => {
    const tokens = [await enter('auth'), await enter('signup')]
    for (const { accessToken } of tokens) {
      const answer = await request(app).get('/account').set('Authorization', `DIDAuth ${accessToken}`)
      expect(answer.body).toEqual({ account: '1' })
    }
    await runOn(database.url, 'UPDATE accounts SET is_banned = true')
    await expect(enter('auth')).rejects.toThrow('401 Refused')
    await expect(enter('signup')).rejects.toThrow('401 Refused')
    const { refreshToken } = tokens[0]!
    const refreshed = await request(app).post('/refresh-token').send({ refreshToken })
    expect([refreshed.status, refreshed.text]).toEqual([401, 'Refused'])
  })
})
