import { describe, expect, it } from '@jest/globals'
import { DidAuthError } from 'express-did-auth'
import { StartError } from '../../../servers/config/startup-error.js'
import { waitUntilAvailable } from '../../../servers/content/connections.js'
import { createDependencies, useExistingContents } from '../../../servers/content/engine.js'
import { createEntry } from '../../support/servers/content-stores.js'
import { openVault, readStates } from '../../support/servers/content-engine.js'
import { startedWorkers } from '../../support/servers/start-sqlite-worker.js'

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
