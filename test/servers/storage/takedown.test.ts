import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { chooseSqliteEngine, openSqliteConnection } from '../../../src/stores/sqlite/index.js'
import {
  cidOf,
  did,
  entryOf,
  largeBytes,
  NOW,
  sqliteFolder,
  textsOf,
  type SqliteFolder
} from '../../support/content-stores.js'

let files: SqliteFolder
beforeEach(() => {
  files = sqliteFolder()
})
afterEach(() => files.remove())

/** Names of files that have these bytes anywhere. */
function filesWith(bytes: string): string[] {
  return readdirSync(files.folder, { recursive: true })
    .map(String)
    .filter(
      (name) => statSync(join(files.folder, name)).isFile() && readFileSync(join(files.folder, name)).includes(bytes)
    )
}

const secret = 'a secret that has to go '

describe('a takedown', () => {
  it.each([100, 30_000, 300_000])('leaves no byte of %d in any file', async (size) => {
    const store = await files.open()
    for (let number = 0; number < 20; number += 1)
      await store.writeEntry(entryOf('others', `other ${number} `.repeat(300)))
    const content = secret.repeat(size).slice(0, size)
    await store.writeEntry(entryOf('k', content))
    for (let number = 0; number < 10; number += 1) {
      await store.removeEntries({ did, key: 'others', cid: cidOf(`other ${number} `.repeat(300)) })
    }
    expect(filesWith(secret)).not.toEqual([])
    expect(await store.takeDown(cidOf(content), 'order', NOW)).toEqual({ removed: 1, remains: [] })
    expect(filesWith(secret)).toEqual([])
    expect(await textsOf(store, 'others')).toHaveLength(10)
  })

  it('leaves no byte of content that was removed before', async () => {
    const large = largeBytes(secret)
    const store = await files.open()
    await store.writeEntry(entryOf('k', secret))
    await store.writeEntry(entryOf('large', large))
    await store.removeEntries({ did, key: 'k' })
    expect(await store.takeDown(cidOf(secret), 'order', NOW)).toEqual({ removed: 0, remains: [] })
    expect(await store.takeDown(cidOf(large), 'order', NOW)).toEqual({ removed: 1, remains: [] })
    expect(filesWith(secret.slice(0, 20))).toEqual([])
  })

  it('names the file that something reads, which may have bytes yet', async () => {
    const store = await files.open()
    await store.writeEntry(entryOf('k', secret))
    const reader = openSqliteConnection(files.file, chooseSqliteEngine(), {
      synchronous: 'OFF',
      busyMilliseconds: 1_000
    })
    reader.exec('BEGIN')
    reader.prepare('SELECT * FROM contents').all()
    const { removed, remains } = await store.takeDown(cidOf(secret), 'order', NOW)
    expect(removed).toBe(1)
    expect(remains).toContain(`${files.file}-wal was not emptied: something reads it`)
    reader.exec('COMMIT')
    reader.close()
    expect(await store.takeDown(cidOf(secret), 'order', NOW)).toEqual({ removed: 0, remains: [] })
    expect(filesWith(secret)).toEqual([])
  })
})
