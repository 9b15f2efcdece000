import { afterAll, expect, it, jest } from '@jest/globals'
import { join } from 'node:path'
import { MessageChannel } from 'node:worker_threads'
import type { SqlConnection } from '../../src/stores/sqlite/sqlite-engine.js'
import { temporaryFolder } from '../support/store-folder.js'

const { path, remove } = temporaryFolder()
const { port1: parentPort, port2 } = new MessageChannel()
const opened: SqlConnection[] = []

jest.unstable_mockModule('node:worker_threads', () => ({
  parentPort,
  workerData: { file: join(path, 'auth.db'), engine: 'better-sqlite3' }
}))
const engine = await import('../../src/stores/sqlite/sqlite-engine.js')
jest.unstable_mockModule('../../src/stores/sqlite/sqlite-engine.js', () => ({
  ...engine,
  openConnection: (...args: Parameters<typeof engine.openConnection>) => {
    opened.push(engine.openConnection(...args))
    return opened.at(-1)
  }
}))

afterAll(() => {
  port2.close()
  opened[0]?.close()
  remove()
})

it('the thread of sessions waits for the disk, so that what it answered survives the loss of power', async () => {
  await import('../../src/stores/sqlite/worker.js')
  expect(opened.map((one) => one.prepare('PRAGMA synchronous').all())).toEqual([[{ synchronous: 2 }]])
})
