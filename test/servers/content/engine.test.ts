import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { DidAuthError } from 'express-did-auth'
import type { Dependency } from '../../../servers/observability/health-checks.js'
import { readEnv } from '../../../servers/config/read-env.js'
import { StartError } from '../../../servers/config/startup-error.js'
import { Connections, waitUntilAvailable } from '../../../servers/content/connections.js'
import { createDependencies, openContentEngine, useExistingContents } from '../../../servers/content/engine.js'
import { computeCid, did, createEntry, createLargeBytes, readTexts } from '../../support/servers/content-stores.js'
import { startFakeS3, type FakeS3 } from '../../support/faults/fake-s3.js'
import { testDatabase, type TestDatabase } from '../../support/engines/postgres-server.js'
import { startedWorkers } from '../../support/servers/start-sqlite-worker.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'

let database: TestDatabase
let s3: FakeS3
beforeAll(async () => {
  database = await testDatabase()
  s3 = await startFakeS3()
})
afterAll(async () => {
  await database.drop()
  await s3.close()
})

const closing: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

/** Opens the connections of a server, and returns a function that opens its engine. */
async function openVault(variables: Record<string, string>, name: 'relay' | 'vault' = 'vault') {
  const { path, remove } = temporaryFolder()
  closing.push(remove)
  const env = readEnv({ DATA_DIR: path, ...variables }, name, false, 'operate')
  const connections = await Connections.open(env)
  closing.push(() => connections.close())
  const open = async () => {
    const engine = await openContentEngine(env, connections)
    closing.push(() => engine.close())
    return { ...engine, contents: engine.contents.store }
  }
  return { env, connections, open }
}

const readStates = async (dependencies: readonly Dependency[]): Promise<Record<string, unknown>> =>
  Object.fromEntries(
    await Promise.all(
      dependencies.map(async ({ name, isNeeded, check }) => {
        const state = await check(new AbortController().signal).then(
          () => 'ok',
          (error: unknown) => String(error)
        )
        return [name, [isNeeded, state]] as const
      })
    )
  )

describe('waitUntilAvailable', () => {
  it('retries, and reports each reason once, in words', async () => {
    const failures = [
      ['ECONNREFUSED', 'connect'],
      ['57P03', 'starting up (57P03)']
    ].map(([code, message]) => new DidAuthError('ERR_STORE', { cause: Object.assign(new Error(message), { code }) }))
    const reported: string[] = []
    for (const failure of failures) {
      const answers = [failure, failure]
      const ask = () => (answers.length > 0 ? Promise.reject(answers.pop()!) : Promise.resolve())
      await waitUntilAvailable(ask, (reason) => reported.push(reason))
    }
    expect(reported).toEqual(['the connection was refused', 'starting up (57P03)'])
  })

  it('fails with one sentence if only another setup helps', async () => {
    const ask = () => Promise.reject(new DidAuthError('ERR_CONFIG', { cause: undefined }))
    await expect(waitUntilAvailable(ask, () => undefined)).rejects.toThrow(StartError)
  })
})

describe('openContentEngine', () => {
  it('uses SQLite and files if the environment names no engine', async () => {
    const { env, connections, open } = await openVault({})
    await expect(useExistingContents(env, async () => undefined)).rejects.toThrow('There is no vault in')
    const { dependencies, usedPercent } = await open()
    expect(connections.areRemote).toBe(false)
    expect(await readStates(dependencies)).toEqual({ store: [true, 'ok'], clock: [false, 'ok'] })
    expect(await usedPercent()).toBeGreaterThan(0)
    expect(dependencies.find(({ name }) => name === 'clock')).toMatchObject({ failure: 'jumped' })
  })

  it('uses the database and the bucket of the environment, which another instance shares', async () => {
    const { endpoint, bucket, region, accessKeyId, secretAccessKey } = s3.options()
    const variables = {
      DATABASE_URL: database.url,
      S3_ENDPOINT: endpoint,
      S3_BUCKET: bucket,
      S3_REGION: region,
      S3_ACCESS_KEY_ID: accessKeyId,
      S3_SECRET_ACCESS_KEY: secretAccessKey
    }
    const first = await (await openVault(variables)).open()
    const second = await (await openVault(variables)).open()
    const large = createLargeBytes('x')
    await first.contents.writeEntry(createEntry('k', large))
    await first.contents.writeEntry(createEntry('k', 'small'))
    expect(await readTexts(second.contents, 'k')).toEqual([String(large), 'small'])
    expect(s3.requests.some((request) => request.startsWith(`PUT vault/${computeCid(large)}.`))).toBe(true)
    expect(await readStates(first.dependencies)).toEqual({
      database: [true, 'ok'],
      objects: [true, 'ok'],
      clock: [true, 'ok']
    })
    expect(await second.contents.readUsage(did)).toMatchObject({ entryCount: 2 })
    expect(await first.usedPercent()).toBe(0)
  })

  it('fails with one line if the database is misconfigured', async () => {
    const url = new URL(database.url)
    url.pathname = '/no_such_database'
    url.password = 'hunter2'
    const failure: unknown = await openVault({ DATABASE_URL: url.href }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(StartError)
    expect(String(failure)).toMatch(/^StartError: Cannot use the database \(DATABASE_URL\): .*no_such_database.*$/)
    expect(String(failure)).not.toContain('hunter2')
  })

  it('opens while the database is unavailable', async () => {
    const { connections, open } = await openVault({ DATABASE_URL: 'postgres://root@127.0.0.1:1/app' })
    const { contents } = await open()
    await expect(contents.writeEntry(createEntry('k', 'a'))).rejects.toMatchObject({ code: 'ERR_STORAGE', status: 503 })
    expect(connections.areRemote).toBe(true)
  })

  it('stays ready while many requests wait for the database, and checks again after a failure', async () => {
    const { env } = await openVault({})
    const busyError = new DidAuthError('ERR_STORE', { cause: new DidAuthError('ERR_BUSY') })
    const outcomes = [busyError, new Error('away'), undefined]
    const ping = (): Promise<void> => {
      const error = outcomes.shift()
      return error === undefined ? Promise.resolve() : Promise.reject(error)
    }
    const [store] = createDependencies(env, {}, { durable: { ping } })
    const ask = (): Promise<unknown> => store!.check(new AbortController().signal)
    await ask()
    await expect(ask()).rejects.toThrow('away')
    await ask()
  })
})

it.each([
  ['vault', 'FULL'],
  ['relay', 'NORMAL']
] as const)('a %s on SQLite stores its contents with synchronous=%s', async (name, synchronous) => {
  const { open } = await openVault({}, name)
  await open()
  expect(startedWorkers.findLast(({ role }) => role === 'content')?.settings).toMatchObject({ synchronous })
})
