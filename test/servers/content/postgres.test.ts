import { describe, expect, it } from '@jest/globals'
import type { SqlStatement } from 'express-did-auth/server-kit'
import { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { createPostgresContents, createTranslator } from '../../../servers/content/sql/content-dialect.js'
import * as contentSteps from '../../../servers/content/sql/content-steps.js'
import * as entryVerbs from '../../../servers/content/sql/entry-verbs.js'
import * as fileVerbs from '../../../servers/content/sql/file-verbs.js'
import * as garbage from '../../../servers/content/sql/garbage-verbs.js'
import * as inspectionVerbs from '../../../servers/content/sql/inspection-verbs.js'
import * as postgresContents from '../../../servers/content/sql/open-postgres-contents.js'
import * as pinVerbs from '../../../servers/content/sql/pin-verbs.js'
import { createContentMigrations } from '../../../servers/content/sql/tables.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { unqualifiedFunctions } from '../../support/fixtures/unqualified-functions.js'
import { computeCid, createEntry } from '../../support/servers/content-stores.js'

const { openPostgresContentStore } = postgresContents
const unavailable = { code: 'ERR_STORAGE', status: 503 }

describe('a content store on PostgreSQL', () => {
  it('answers 503 and is not ready while the database is unavailable', async () => {
    const database = new PostgresDatabase('postgres://nobody@127.0.0.1:1/none')
    const folder = temporaryFolder()
    const { store } = openPostgresContentStore({ database, tables: 'vault', folder: folder.path })
    await expect(store.writeEntry(createEntry('k', 'a'))).rejects.toMatchObject(unavailable)
    await expect(store.readContents([computeCid('a')])).rejects.toMatchObject(unavailable)
    await expect(store.probe()).rejects.toMatchObject(unavailable)
    await database.close()
    folder.remove()
  })
})

describe('a database in which another role may create functions', () => {
  it('receives only function names with a schema', () => {
    const texts = createContentMigrations('vault').flatMap(({ statements }) => [...statements])
    const translate = createTranslator(createPostgresContents('vault'))
    const modules = [contentSteps, entryVerbs, fileVerbs, garbage, inspectionVerbs, pinVerbs, postgresContents]
    for (const [name, value] of modules.flatMap((module) => Object.entries<unknown>({ ...module }))) {
      if (!name.endsWith('Statements')) continue
      texts.push(...Object.values(value as Record<string, SqlStatement>).map((statement) => translate(statement).text))
    }
    expect(texts.length).toBeGreaterThan(110)
    expect(texts.flatMap(unqualifiedFunctions)).toEqual([])
  })
})

describe('writes on PostgreSQL', () =>
  it('run one at a time for an owner, also after a failure, and concurrently for several owners', async () => {
    const running: { resolve: (value: unknown) => void; reject: (error: Error) => void }[] = []
    const transaction = () => new Promise((resolve, reject) => running.push({ resolve, reject }))
    const folder = temporaryFolder()
    // The store uses nothing else of the database for a removal.
    const database = { transaction } as unknown as PostgresDatabase
    const { store } = openPostgresContentStore({ database, tables: 'vault', folder: folder.path })
    const [first, second, other] = ['a', 'a', 'b'].map((owner) => store.removeEntries({ did: owner, key: 'k' }))
    await new Promise(setImmediate)
    expect(running.length).toBe(2)
    running[1]!.resolve('other')
    expect(await other).toBe('other')
    expect(running.length).toBe(2)
    running[0]!.reject(new Error('refused'))
    await expect(first).rejects.toMatchObject({ code: 'ERR_STORAGE' })
    await new Promise(setImmediate)
    expect(running.length).toBe(3)
    running[2]!.resolve('second')
    expect(await second).toBe('second')
    folder.remove()
  }))

describe('a removal during the first write of an owner', () => {
  const removal = { did: 'did:example:1', key: 'k' }
  const row = { entry_count: 1, hash: Buffer.alloc(32, 1), number: 1, cid: computeCid('a'), byte_count: 1 }
  const emptyEtag = `"${'A'.repeat(43)}"`
  const fullEtag = `"${row.hash.toString('base64url')}"`
  /** Runs the removal as if the write was committed between its two statements. */
  const remove = (precondition: object = {}) => {
    const texts: string[] = []
    const query = async (statement: SqlStatement) => {
      const { text } = translate(statement)
      texts.push(text)
      const rows = texts.length === 1 ? [] : [row]
      return { rows, rowCount: rows.length, isRepeat: false }
    }
    const dialect = createPostgresContents('vault')
    const translate = createTranslator(dialect)
    const removed = entryVerbs.removeEntries.run(Object.assign(query, { dialect }), { ...removal, ...precondition }, 1)
    return removed.then((change) => ({ ...change, statements: texts.length }))
  }

  it('takes place before it: it changes nothing and answers with the ETag of the empty list', async () => {
    expect(await remove()).toEqual({ etag: emptyEtag, changedPins: [], hasReleased: false, statements: 2 })
    expect(await remove({ ifMatch: [emptyEtag] })).toMatchObject({ etag: emptyEtag })
  })

  it.each([{ ifMatch: '*' }, { ifMatch: [fullEtag] }])('judges %j by the empty list', async (precondition) => {
    await expect(remove(precondition)).rejects.toThrow(JSON.stringify(emptyEtag))
  })
})
