import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import { createServer, type AddressInfo } from 'node:net'
import { startFullDisk } from '../../support/engines/postgres-standby.js'
import { findDomain, Instances } from '../../support/servers/instances.js'
import { runOn, startPostgres, type PostgresEngine } from '../../support/engines/postgres-server.js'
import { ask, askUntilReady, logIn, me, post } from '../../support/servers/server-client.js'
import type { Env, ServerCommand } from '../../support/servers/server-process.js'
import { until } from '../../support/fixtures/until.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const PASSWORD = 'correct-horse-battery'
const WRONG_PASSWORD = 'wrong-horse-battery'
const SECRET_KEY = 'staple-of-the-bucket'

let engine: PostgresEngine
let instances: Instances

beforeAll(async () => {
  engine = await startPostgres()
  await runOn(engine.url(), `CREATE ROLE checked LOGIN PASSWORD '${PASSWORD}'`)
})

beforeEach(async () => {
  await runOn(engine.url(), 'CREATE DATABASE app OWNER checked')
  instances = new Instances({ LOG_LEVEL: 'info' })
})

afterEach(async () => {
  await instances.killAll()
  expect(engine.log()).not.toContain('deadlock detected')
  await runOn(engine.url(), 'DROP DATABASE app WITH (FORCE)')
})

afterAll(() => engine.remove())

const createUrl = (database: string, password = PASSWORD): string => engine.url(database, `checked:${password}`)

describe('a server with a misconfigured database', () => {
  /** Returns the line that the operator reads when the process exits during the start. */
  const readStartLine = async (command: ServerCommand, env: Env): Promise<string> => {
    const started: unknown = await instances.start(command, env).catch((error: unknown) => error)
    expect(started).toBeInstanceOf(Error)
    const { message } = started as Error
    for (const secret of [PASSWORD, WRONG_PASSWORD]) expect(message).not.toContain(secret)
    return message.trim()
  }
  const START = 'the server ended with 1: Cannot use the database \\(DATABASE_URL\\): '

  it.each<{ what: string; env: () => Env; before?: string; line: string }>([
    {
      what: 'the password',
      env: () => ({ DATABASE_URL: createUrl('app', WRONG_PASSWORD) }),
      line: 'PostgreSQL refused the password: password authentication failed for user "checked" \\(28P01\\)'
    },
    {
      what: 'the database',
      env: () => ({ DATABASE_URL: createUrl('missing') }),
      line: 'PostgreSQL has no such database: database "missing" does not exist \\(3D000\\)'
    },
    {
      what: 'missing tables that it may not create',
      env: () => ({ DATABASE_URL: createUrl('app'), DATABASE_MIGRATE: 'false' }),
      line: 'the tables of \\w+_schema are missing, and version \\d+ is needed: run `node \\S+ migrate`'
    },
    {
      what: 'tables of newer code',
      before: `CREATE TABLE did_auth_schema (version int PRIMARY KEY, needs_code int NOT NULL);
        INSERT INTO did_auth_schema VALUES (9, 8); GRANT SELECT ON did_auth_schema TO checked`,
      env: () => ({ DATABASE_URL: createUrl('app') }),
      line: 'the tables of did_auth_schema have version 9, which needs code for version 8; this code knows version \\d+: update express-did-auth'
    }
  ])('exits with code 1 and one line about $what', async ({ env, before, line }) => {
    if (before !== undefined) await runOn(engine.url('app'), before)
    for (const command of ['auth', 'vault'] as const) {
      expect(await readStartLine(command, env())).toMatch(new RegExp(`^${START}${line}$`))
    }
  })
})

describe('a server whose engines are unavailable', () => {
  const readReady = async (url: string): Promise<[number, unknown]> => {
    const { status, text } = await ask(`${url}/ready`)
    return [status, JSON.parse(text)]
  }

  it('starts without its database, reports it at /ready, and serves once the database is available', async () => {
    const lateEngine = await startPostgres()
    try {
      await lateEngine.stop()
      const { url, output } = await instances.start('auth', { DATABASE_URL: lateEngine.url() })
      // Cause: the log contained the stacks of three errors, and "ready".
      const waiting = { event: 'waiting', variable: 'DATABASE_URL', reason: 'the connection was refused' }
      expect(
        output()
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as object)
      ).toEqual([expect.objectContaining(waiting)])
      expect(output()).not.toContain('    at ')
      expect(await readReady(url)).toMatchObject([503, { dependencies: { database: 'unavailable' } }])
      const refused = await post(`${url}/request-auth`, { did: createNumberedWallet(1).did })
      expect([refused.status, refused.headers.has('retry-after')]).toEqual([503, true])
      await lateEngine.start()
      await until(() => output().includes('"event":"ready"'))
      expect(JSON.parse((await askUntilReady(url)).text)).toMatchObject({ dependencies: { database: 'ok' } })
      const { accessToken } = await logIn(url, createNumberedWallet(1), findDomain('auth'))
      expect((await me(url, accessToken)).status).toBe(200)
      expect(output()).not.toContain('"level":60')
    } finally {
      await lateEngine.remove()
    }
  })

  it('reports at /ready that REDIS_URL names another kind of server', async () => {
    const REDIS_URL = `redis://:${WRONG_PASSWORD}@127.0.0.1:${engine.port}`
    const { url, output } = await instances.start('auth', { DATABASE_URL: createUrl('app'), REDIS_URL })
    const [status, state] = await readReady(url)
    expect([status, state]).toMatchObject([503, { dependencies: { database: 'ok', redis: 'unavailable' } }])
    expect((state as { reasons: object }).reasons).toEqual({ redis: expect.any(String) })
    expect(output()).toMatch(/"msg":"waiting for Redis \(REDIS_URL\): /)
    expect(output()).not.toContain('"event":"ready"')
    expect(output() + JSON.stringify(state)).not.toMatch(new RegExp(`${WRONG_PASSWORD}|${PASSWORD}`))
  })

  it.each(['refuses', 'is silent'])('reports at /ready that its bucket %s', async (how) => {
    const silent = createServer(() => undefined)
    await new Promise<void>((resolve) => void silent.listen(0, '127.0.0.1', resolve))
    const { port } = silent.address() as AddressInfo
    if (how === 'refuses') silent.close()
    try {
      const { url, output } = await instances.start('vault', {
        DATABASE_URL: createUrl('app'),
        S3_ENDPOINT: `http://127.0.0.1:${port}`,
        S3_BUCKET: 'content',
        S3_ACCESS_KEY_ID: 'AKIDEXAMPLE',
        S3_SECRET_ACCESS_KEY: SECRET_KEY
      })
      const [status, state] = await readReady(url)
      expect([status, state]).toMatchObject([503, { dependencies: { database: 'ok', objects: 'unavailable' } }])
      expect((state as { reasons: object }).reasons).toEqual({ objects: expect.any(String) })
      expect(output() + JSON.stringify(state)).not.toMatch(new RegExp(`${SECRET_KEY}|${PASSWORD}`))
      // Content that fits into a row needs no bucket.
      const { accessToken } = await logIn(url, createNumberedWallet(2), findDomain('vault'))
      const headers = { Authorization: `DIDAuth ${accessToken}` }
      expect((await post(`${url}/notes`, { content: 'small' }, headers)).status).toBe(201)
    } finally {
      silent.close()
    }
  })
})

describe('instances whose database has a full disk', () => {
  it('answer 507 at the vault and 503 at auth, still read, and recover once there is space', async () => {
    const disk = await startFullDisk()
    try {
      const DATABASE_URL = disk.url
      const [auth, vault] = await Promise.all([
        instances.start('auth', { DATABASE_URL }),
        instances.start('vault', { DATABASE_URL })
      ])
      const wallet = createNumberedWallet(3)
      const { accessToken } = await logIn(vault.url, wallet, findDomain('vault'))
      const write = async (content: string): Promise<number> =>
        (await post(`${vault.url}/notes`, { content }, { Authorization: `DIDAuth ${accessToken}` })).status
      expect(await write('kept')).toBe(201)

      await disk.fill()
      const text = Array.from({ length: 4_000 }, (_, index) => index.toString(36)).join(' ')
      const [writeStatuses, challengeStatuses] = [new Set<number>(), new Set<number>()]
      const addStatus = async (statuses: Set<number>, status: Promise<number>, expected: number): Promise<boolean> => {
        statuses.add(await status)
        return statuses.has(expected)
      }
      let number = 0
      await until(() => addStatus(writeStatuses, write(`${(number += 1)} ${text}`), 507))
      // A page of the table may still have space for a few rows.
      const requestChallenge = async () =>
        (await post(`${auth.url}/request-auth`, { did: createNumberedWallet((number += 1)).did })).status
      await until(() => addStatus(challengeStatuses, requestChallenge(), 503))
      writeStatuses.delete(201)
      challengeStatuses.delete(200)
      expect([[...writeStatuses], [...challengeStatuses]]).toEqual([[507], [503]])
      const read = await ask(`${vault.url}/${wallet.did}/notes`)
      expect([read.status, (JSON.parse(read.text) as string[])[0]]).toEqual([200, 'kept'])

      await disk.free()
      await until(async () => (await write(`more ${text}`)) === 201)
      await until(async () => (await requestChallenge()) === 200)
      await logIn(auth.url, createNumberedWallet(4), findDomain('auth'))
    } finally {
      await instances.killAll()
      await disk.remove()
    }
  })
})
