import { afterEach, expect, it, jest } from '@jest/globals'
import * as fs from 'node:fs/promises'
import { statSync } from 'node:fs'
import type * as ContentStores from '../../support/servers/content-stores.js'

/** Free space of the disk, as a multiple of the size of the database. */
let copies = 0
jest.unstable_mockModule('node:fs/promises', () => ({
  ...fs,
  statfs: () => Promise.resolve({ bavail: copies * statSync(files.file).size, bsize: 1 })
}))
const { computeCid, createEntry, NOW, sqliteFolder } = await import('../../support/servers/content-stores.js')

let files: ContentStores.SqliteFolder
afterEach(() => files.remove())

it.each([
  [2.5, []],
  [2.1, [expect.stringMatching(/vault[.]db was not rewritten: not enough disk space for a copy$/)]]
])('a takedown with space for %d copies of the database reports these remains: %j', async (space, remains) => {
  files = sqliteFolder()
  copies = space
  const store = await files.open()
  await store.writeEntry(createEntry('k', 'secret'))
  expect(await store.takeDown(computeCid('secret'), 'order', NOW)).toEqual({ removed: 1, remains })
})
