import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SqlQuery, SqlVerb } from 'express-did-auth/server-kit'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { runReconcile } from '../../../servers/tools/reconcile.js'
import type { ObjectStore } from '../../../servers/content/content-store.js'
import {
  createPostgresContents,
  createTranslator,
  type ContentDialect
} from '../../../servers/content/sql/content-dialect.js'
import * as contentSteps from '../../../servers/content/sql/content-steps.js'
import * as fileVerbs from '../../../servers/content/sql/file-verbs.js'
import * as garbage from '../../../servers/content/sql/garbage-verbs.js'
import { createPostgresObjectStore } from '../../../servers/content/sql/postgres-object-store.js'
import {
  computeCid,
  did,
  createEntry,
  createFile,
  createLargeBytes,
  createContent,
  createObjectName,
  NOW,
  listObjectNames,
  readTexts,
  type TestStore
} from '../../support/servers/content-stores.js'
import {
  usePostgresContents,
  watchedPool,
  type OpenedPostgres,
  type PostgresContents,
  type WatchedPool
} from '../../support/servers/postgres-contents.js'
import { runCommand } from '../../support/servers/command-line.js'
import { tcpProxy, type TcpProxy } from '../../support/faults/tcp-proxy.js'
import { until } from '../../support/fixtures/until.js'

const place = { did, key: 'k' }
const large = createLargeBytes('large')
const dryRun = { isDryRun: true }
const forReal = { isDryRun: false }
const unavailable = { code: 'ERR_STORAGE', status: 503 }
/** COMMIT as sent on the wire. The NUL tells it from `READ COMMITTED`, which begins a transaction. */
const COMMIT = 'COMMIT\0'

const make = usePostgresContents()
let files: PostgresContents
beforeEach(async () => {
  files = await make()
})
afterEach(() => files.remove())

describe('round trips to the database', () => {
  let pool: WatchedPool
  let store: TestStore
  beforeEach(async () => {
    pool = watchedPool(files.url)
    store = await files.open({ source: pool, tracksPins: true })
  })
  afterEach(() => pool.end())

  /** Measures statements and round trips of a verb, for a user who already has entries. */
  async function measureCost(verb: () => Promise<unknown>): Promise<[statements: number, trips: number]> {
    await store.writeEntry(createEntry('other', 'of the user'))
    pool.reset()
    await verb()
    return [pool.sent.length, pool.trips]
  }

  it.each([
    ['a write', () => store.writeEntry(createEntry('k', 'a')), 9, 3],
    [
      'a write that replaces nothing of a list',
      () => store.writeEntry(createEntry('k', 'a', { replaces: 'all' })),
      9,
      3
    ],
    ['a list', () => store.listEntries(place), 1, 1],
    ['a description', () => store.describeList(place), 1, 1],
    [
      'contents of a hundred entries',
      () => store.readContents(Array.from({ length: 100 }, () => computeCid('a'))),
      1,
      1
    ],
    ['a claim of pins', () => store.claim({ limit: 20, nowSeconds: 0, leaseSeconds: 30 }), 1, 1],
    ['a read of a file', () => store.findFile(computeCid('a'), 0), 1, 1]
  ])('are constant in number for %s', async (_what, verb, statements, trips) => {
    expect(await measureCost(verb)).toEqual([statements, trips])
  })

  it('are those of one transaction for a replacement and a removal, with unreferenced content', async () => {
    await store.writeEntry(createEntry('k', 'a'))
    expect(await measureCost(() => store.writeEntry(createEntry('k', 'b', { replaces: 'all' })))).toEqual([13, 3])
    expect(await measureCost(() => store.removeEntries(place))).toEqual([10, 3])
  })

  it('are three for a post, plus the sum of all files, which is read every 10 s', async () => {
    await store.writeFile(createFile('a'))
    expect(await measureCost(() => store.writeFile(createFile('b')))).toEqual([8, 3])
  })

  it('are repeated for a post whose response is lost, and charge its user once', async () => {
    const bounds = { maxStoreBytes: 1_000_000, maxBytesPerDid: 10, slotSeconds: 100 }
    pool.loseAnswerTo = 'COMMIT'
    await store.writeFile(createFile('12345', { bounds }))
    expect(pool.loseAnswerTo).toBeUndefined()
    await store.writeFile(createFile('67890', { bounds }))
  })
})

describe('a change whose connection is cut', () => {
  let proxy: TcpProxy
  let store: TestStore
  beforeEach(async () => {
    const url = new URL(files.url)
    proxy = await tcpProxy(Number(url.port))
    url.port = String(proxy.port)
    // The transaction after the upload marks the object as in use.
    const put: ObjectStore['put'] = async (...args) => {
      await files.objects.put(...args)
      if (proxy.cuts() === 0) proxy.cut(COMMIT, 'before the answer')
    }
    store = await files.open({ source: url.href, objects: { ...files.objects, put }, tracksPins: true })
    await store.writeEntry(createEntry('k', 'before'))
  })
  afterEach(() => proxy.close())

  const write = (content: string | Uint8Array, options = {}) => store.writeEntry(createEntry('k', content, options))
  const changes: [what: string, change: () => Promise<unknown>, after: string[]][] = [
    ['a write', () => write('new'), ['before', 'new']],
    ['a replacement', () => write('new', { replaces: 'all' }), ['new']],
    ['a write with If-Match', () => write('new', { ifMatch: '*' }), ['before', 'new']],
    ['a removal', () => store.removeEntries(place), []]
  ]

  // A second attempt would undo what another device has written or removed in between.
  it.each(changes)(
    'fails without a retry if cut before the response to its COMMIT: %s',
    async (_what, change, after) => {
      proxy.cut(COMMIT, 'before the answer')
      await expect(change()).rejects.toMatchObject(unavailable)
      expect(await readTexts(store, 'k')).toEqual(after)
      expect(await files.leaks(store)).toEqual([])
    }
  )

  // A second attempt would claim other tasks, or report the end of its own first attempt as late.
  it('fails without a retry if cut before the response to a verb of pins', async () => {
    const request = { limit: 1, nowSeconds: NOW, leaseSeconds: 30 }
    const [task] = await store.claim(request)
    const calls: [statement: string, call: () => Promise<unknown>][] = [
      ['vault_pin_postpone', () => store.postpone(task!, NOW)],
      ['vault_pin_claimDue', () => store.claim(request)],
      ['vault_pin_pinned', () => store.finish(task!, NOW)]
    ]
    for (const [statement, call] of calls) {
      proxy.cut(statement, 'before the answer')
      await expect(call()).rejects.toMatchObject(unavailable)
    }
    expect([proxy.cuts(), await store.countOpen()]).toEqual([3, 0])
  })

  it('fails if cut after an upload, and its object stays in use', async () => {
    await expect(write(large, { replaces: 'all' })).rejects.toMatchObject(unavailable)
    expect(await files.leaks(store)).toEqual([])
    expect(await readTexts(store, 'k')).toEqual([String(large)])
  })

  it('succeeds if it posts a file and is cut after an upload: the second attempt finds its own object', async () => {
    await store.writeFile(createFile(large))
    expect(proxy.cuts()).toBe(1)
    expect(await files.leaks(store)).toEqual([])
  })

  it('is retried if cut before its COMMIT was sent', async () => {
    proxy.cut('vault_entry_stateOfNamed', 'before the answer')
    await write('new', { ifMatch: '*' })
    expect(proxy.cuts()).toBe(1)
    expect(await readTexts(store, 'k')).toEqual(['before', 'new'])
  })
})

describe('a content store on PostgreSQL', () => {
  it('rebuilds an invalid index', async () => {
    const { inspection } = await files.openAll()
    await files.query(`UPDATE pg_index SET indisvalid = false WHERE indexrelid = '~entries_by_cid'::regclass`)
    const report = { damage: [], indexes: ['vault_entries_by_cid'] }
    for (const mode of [dryRun, forReal]) expect(await inspection.checkDatabase(mode)).toEqual(report)
    expect(await inspection.checkDatabase(dryRun)).toEqual({ damage: [], indexes: [] })
  })

  it('has an invalid index, which `vault reconcile` finds and rebuilds', async () => {
    await (await files.open()).writeEntry(createEntry('k', 'a'))
    await files.query(`UPDATE pg_index SET indisvalid = false WHERE indexrelid = '~entries_by_cid'::regclass`)
    const identity = { PRIVATE_KEY: '1'.repeat(64), CHALLENGE_SECRET: 'a secret of the tests, longer than 32 bytes' }
    const env = { DATABASE_URL: files.url, DATA_DIR: files.folder, SERVICE_URL: 'https://vault.example', ...identity }
    const run = async (...args: string[]) => {
      const { code, lines } = await runCommand(runReconcile, args, env)
      return [code, lines[0]]
    }
    expect(await run('--dry-run')).toEqual([1, 'database: damaged indexes to rebuild: vault_entries_by_cid'])
    expect(await run()).toEqual([0, 'database: damaged indexes rebuilt: vault_entries_by_cid'])
    expect(await run('--dry-run')).toEqual([0, 'database: sound'])
  })

  it('is damaged if it was restored without its foreign keys', async () => {
    const { inspection } = await files.openAll()
    await files.query('ALTER TABLE ~files DROP CONSTRAINT ~files_cid_fkey')
    const { damage } = await inspection.checkDatabase(dryRun)
    await files.query('ALTER TABLE ~files ADD CONSTRAINT ~files_cid_fkey FOREIGN KEY (cid) REFERENCES ~contents')
    expect(damage).toEqual(['table vault_files has no valid foreign key'])
  })

  it.each(['UPDATE ~object_pieces SET bytes = substr(bytes, 2)', 'DELETE FROM ~object_pieces WHERE number = 1'])(
    'returns no content after %s, until the content is written again',
    async (damage) => {
      const store = await files.open()
      await store.writeEntry(createEntry('k', large))
      await files.query(damage)
      const [content] = await store.readContents([computeCid(large)])
      await expect(content!.bytes()).rejects.toMatchObject({ code: 'ERR_CONTENT_MISSING' })
      await store.writeEntry(createEntry('k', large))
      expect(await readTexts(store, 'k')).toEqual([String(large)])
    }
  )

  it('leaves content that another transaction has locked to the collector', async () => {
    const { store, database } = await files.openAll()
    await store.writeEntry(createEntry('k', 'a'))
    await database.transaction(async (query) => {
      await query({ text: 'SELECT 1 FROM vault_contents FOR UPDATE' })
      await store.removeEntries(place)
    })
    expect(await files.leaks(store)).toEqual([])
  })

  it('marks no object as garbage that is in use after all, or that a takedown overwrites', async () => {
    const { store, database } = await files.openAll()
    await store.writeEntry(createEntry('k', large))
    const [name = ''] = await listObjectNames(files.objects)
    const taken = createObjectName('taken')
    await files.query(`INSERT INTO ~garbage VALUES ('${taken}', 'takedown', 1, 1)`)
    const dialect = createPostgresContents('vault')
    const translate = createTranslator(dialect)
    const run: SqlQuery = (statement, values) => database.query(translate(statement), values)
    for (const object of [name, taken]) {
      const upload = { cid: computeCid(large), byteCount: large.length, name: object }
      await contentSteps.discardUpload.run(Object.assign(run, { dialect }), upload, 'removed', NOW)
    }
    expect(await files.query('SELECT object, kind FROM ~garbage')).toEqual([{ object: taken, kind: 'takedown' }])
  })

  it('claims no pin that another transaction has locked, and does not wait for it', async () => {
    const { store, database } = await files.openAll({ tracksPins: true })
    for (const text of ['a', 'b']) await store.writeEntry(createEntry('k', text))
    await database.transaction(async (query) => {
      await query({ text: 'SELECT 1 FROM vault_pins WHERE cid = $1 FOR UPDATE' }, [computeCid('a')])
      const tasks = await store.claim({ limit: 10, nowSeconds: NOW, leaseSeconds: 30 })
      expect(tasks.map(({ cid }) => cid)).toEqual([computeCid('b')])
    })
  })

  describe('content that a collector has claimed', () => {
    const unreferenced = "SELECT 1 FROM vault_unreferenced WHERE cid = '" + computeCid('a') + "' FOR UPDATE"
    const contents = "SELECT 1 FROM vault_contents WHERE cid = '" + computeCid('a') + "' FOR UPDATE"
    let opened: OpenedPostgres
    beforeEach(async () => {
      opened = await files.openAll({ tracksPins: true })
      await opened.store.writeEntry(createEntry('k', 'a'))
      await files.query('INSERT INTO ~unreferenced SELECT cid, 1 FROM ~contents')
    })

    it('is skipped by another collector, also if a writer has locked it', async () => {
      for (const text of [unreferenced, contents])
        await opened.database.transaction(async (query) => {
          await query({ text })
          await opened.store.collectGarbage(NOW)
        })
      expect(await readTexts(opened.store, 'k')).toEqual(['a'])
    })

    it('makes a takedown wait before it locks the content, which the collector locks next', async () => {
      let takenDown: Promise<unknown> | undefined
      await opened.database.transaction(async (query) => {
        await query({ text: unreferenced })
        takenDown = opened.store.takeDown(computeCid('a'), 'order', NOW)
        const waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        await until(async () => (await files.query(waiting)).length > 0)
        await query({ text: `${contents} NOWAIT` })
      })
      expect(await takenDown).toMatchObject({ removed: 1 })
    })
  })

  it('locks rows in the same order in two collectors and a takedown', async () => {
    const [first, second, third] = await Promise.all([1, 2, 3].map(() => files.open({ tracksPins: true })))
    const texts = ['a', 'b', 'c', 'd', 'e', 'f']
    for (let round = 0; round < 30; round += 1) {
      await Promise.all(texts.map((text) => first!.writeEntry(createEntry('k', text))))
      await files.query('INSERT INTO ~unreferenced SELECT cid, 1 FROM ~contents ON CONFLICT DO NOTHING')
      const removals = texts.slice(3).map((text) => first!.removeEntries({ ...place, cid: computeCid(text) }))
      const collections = [first!, second!].map((store) => store.collectGarbage(NOW))
      await Promise.all([...removals, ...collections, third!.takeDown(computeCid('a'), 'order', NOW)])
      await first!.allow(computeCid('a'))
    }
    expect(files.retries()).not.toHaveProperty('40P01')
    expect(await files.leaks(first!)).toEqual([])
  })

  // Cause: a takedown and the collector, which runs after a removal, locked pin and content in different orders.
  it('locks rows in the same order in a takedown and a removal of the last entry', async () => {
    const [first, second] = [await files.open({ tracksPins: true }), await files.open({ tracksPins: true })]
    for (let round = 0; round < 60; round += 1) {
      await first.writeEntry(createEntry('k', 'a'))
      await Promise.all([first.removeEntries(place), second.takeDown(computeCid('a'), 'order', NOW)])
      await first.allow(computeCid('a'))
    }
    expect(files.retries()).not.toHaveProperty('40P01')
    expect(await files.leaks(first)).toEqual([])
  })
})

describe('a statement that fails', () => {
  const dialect = createPostgresContents('vault')
  const translate = createTranslator(dialect)
  const bounds = { maxStoreBytes: 1_000_000, maxBytesPerDid: 1_000_000, slotSeconds: 100 }
  const { cid, byteCount, leafHashes } = createContent(large)
  const small = {
    cid: computeCid('b'),
    byteCount: 1,
    leafHashes: createContent('b').leafHashes,
    bytes: Buffer.from('b')
  }
  const object = { name: `${cid}.0123456789abcdef`, isUploaded: false }
  const post = { expiresAtSeconds: NOW + 9, nowSeconds: NOW, tracksPins: true, post: { did, bounds, usedBytes: 0 } }
  const failure = new Error('the statement failed')

  /** Rejects after the other statements of the verb were sent. */
  const fail = (): Promise<never> => {
    const failed = new Promise<never>((_resolve, reject) => setImmediate(() => reject(failure)))
    failed.catch(() => undefined)
    return failed
  }

  const calls: readonly (readonly [verb: SqlVerb<ContentDialect>, ...args: unknown[]])[] = [
    [fileVerbs.writeFile, { ...post, content: small }],
    [fileVerbs.writeFile, { ...post, content: { cid, byteCount, leafHashes, object } }],
    [fileVerbs.deleteExpiredFiles, NOW + 10_000],
    [fileVerbs.findFile, computeCid('a'), NOW],
    [fileVerbs.storedBytes],
    [garbage.collectUnreferenced, '', NOW],
    [garbage.deny, computeCid('a'), 'order', NOW],
    [garbage.takeDownStep, computeCid('a'), NOW],
    [garbage.abandonUploads, NOW],
    [garbage.forgetGarbage, ['object']],
    [garbage.allow, computeCid('a')],
    [garbage.probe],
    [garbage.findGarbage, '', NOW],
    [garbage.isTakenDown, computeCid('a')]
  ]
  it.each(calls)('makes its verb fail (%#)', async (verb, ...args) => {
    const { store, database } = await files.openAll({ tracksPins: true })
    for (const text of ['a', 'unused']) await store.writeEntry(createEntry(text, text))
    await store.writeFile(createFile('a'))
    await files.query("DELETE FROM ~entries WHERE key = 'unused'")
    await files.query('INSERT INTO ~unreferenced SELECT cid, 1 FROM ~contents')
    /** Runs the verb with one failing statement, and rolls it back. */
    const run = async (failing: number): Promise<{ outcome: unknown; sent: number }> => {
      let result: { outcome: unknown; sent: number } | undefined
      const work = async (query: SqlQuery): Promise<never> => {
        let sent = 0
        const failingQuery: SqlQuery = (statement, values) =>
          sent++ === failing ? fail() : query(translate(statement), values)
        const outcome = await verb.run(Object.assign(failingQuery, { dialect }), ...(args as never[])).then(
          () => 'done',
          (error: unknown) => error
        )
        result = { outcome, sent }
        throw new Error('rolled back')
      }
      await expect(database.transaction(work)).rejects.toThrow('rolled back')
      return result!
    }
    const { outcome, sent } = await run(-1)
    expect([outcome, sent > 0]).toEqual(['done', true])
    for (let failing = 0; failing < sent; failing += 1)
      expect([failing, (await run(failing)).outcome]).toEqual([failing, failure])
  })

  it.each([
    ['put of an object', (objects: ObjectStore, file: string) => objects.put('one', file), 300_000],
    ['put of an empty object', (objects: ObjectStore, file: string) => objects.put('one', file), 0],
    ['delete of an object', (objects: ObjectStore) => objects.delete('one'), 0],
    ['list of objects', (objects: ObjectStore) => listObjectNames(objects), 0]
  ])('makes %s fail', async (_verb, call, size) => {
    const { database } = await files.openAll()
    const file = join(files.folder, 'body')
    writeFileSync(file, createLargeBytes('x', size))
    let [sent, failing] = [0, -1]
    const query: PostgresDatabase['query'] = (...args) => (sent++ === failing ? fail() : database.query(...args))
    const objects = createPostgresObjectStore({ query }, 'vault')
    await call(objects, file)
    const count = sent
    for (failing = 0; failing < count; failing += 1) {
      await files.query('DELETE FROM ~objects')
      sent = 0
      await expect(call(objects, file)).rejects.toThrow()
    }
    const unopened = createPostgresObjectStore(database, 'vault', fail)
    await expect(call(unopened, file)).rejects.toThrow()
  })
})

describe('a database in which another role may create functions', () => {
  /** Functions that another role could create. PostgreSQL prefers them to its own: their arguments fit better. */
  const HOSTILE = [
    ['hashtextextended(text, integer)', 'bigint', '0'],
    ['nextval(text)', 'bigint', '1'],
    ['jsonb_array_elements_text(jsonb)', 'SETOF text', "''"]
  ] as const

  it('runs none of the functions of that role', async () => {
    await files.query('CREATE TABLE IF NOT EXISTS called (name text)')
    for (const [signature, result, value] of HOSTILE)
      await files.query(`CREATE FUNCTION public.${signature} RETURNS ${result} LANGUAGE sql
        AS $$ INSERT INTO called VALUES ('${signature}'); SELECT ${value}::${result.replace('SETOF ', '')} $$`)
    try {
      const { store, inspection } = await files.openAll({ tracksPins: true })
      for (const content of ['a', 'b', large]) await store.writeEntry(createEntry('k', content, { replaces: 'all' }))
      await store.writeFile(createFile('file'))
      await store.removeEntries({ did, key: 'k' })
      await store.takeDown(computeCid('file'), 'order', NOW)
      await inspection.reserveNumbers(100)
      await inspection.importPins([{ cid: computeCid('c'), state: 'unpin' }])
      await store.claim({ limit: 10, nowSeconds: NOW, leaseSeconds: 30 })
      await inspection.checkDatabase(dryRun)
      await inspection.recount(forReal)
      await inspection.checkObjects(forReal)
      await inspection.trackPins(forReal)
      await store.collectGarbage(NOW, { isFull: true })
      expect(await files.query('SELECT DISTINCT name FROM called')).toEqual([])
    } finally {
      for (const [signature] of HOSTILE) await files.query(`DROP FUNCTION public.${signature}`)
    }
  })
})
