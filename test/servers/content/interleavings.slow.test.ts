import { beforeEach, describe, expect, it } from '@jest/globals'
import { until } from '../../support/fixtures/until.js'
import { gatedPool, useInterleavings, type StartState, type VerbName } from '../../support/models/interleavings.js'
import {
  computeCid,
  createEntry,
  createFile,
  createLargeBytes,
  did,
  readTexts
} from '../../support/servers/content-stores.js'
import type { PostgresContents } from '../../support/servers/postgres-contents.js'

const use = useInterleavings()
let files: PostgresContents
beforeEach(() => void ({ files } = use()))

const writers = ['adds the content', 'posts a file'] as const
const owners = ['adds it to an empty list', 'replaces the entry', 'removes the entry'] as const
const cleaners = ['takes it down', 'collects garbage', 'repairs it'] as const

/** Verbs of which each pair runs, by the state in which they start. */
const verbsByState: readonly (readonly [StartState, readonly VerbName[]])[] = [
  ['in an entry', [...writers, ...owners, ...cleaners]],
  ['unused', [...writers, ...cleaners, 'adds it beyond the quota']],
  ['absent', [...writers, 'adds it to an empty list', 'takes it down']],
  ['absent', ['replaces the entry', 'removes the entry']],
  ['in an expired file', [...writers, 'deletes expired files', 'takes it down']],
  ['lost', ['adds the content', 'takes it down', 'repairs it']],
  ['without its pin', ['adds the content', 'removes the entry', 'takes it down', 'corrects pins']],
  ['only a pin', [...writers, 'takes it down', 'corrects pins']],
  ['in a damaged list', ['removes the entry', 'takes it down', 'corrects lists']]
]
// Two repairs of lost content may leave an unused object, which `vault reconcile` finds.
const listSizes = (state: StartState): string[] => (state === 'lost' ? ['small'] : ['small', 'large'])
const cases = verbsByState.flatMap(([state, names]) =>
  names.flatMap((first) => names.flatMap((second) => listSizes(state).map((size) => ({ state, size, first, second }))))
)

describe('two transactions on one content in PostgreSQL', () => {
  it.each(cases)('$size, $state: one $first while another $second', async ({ state, size, first, second }) => {
    expect(await use().interleavings.findFaults(state, size === 'large', first, second)).toEqual([])
  })
})

describe('a write on PostgreSQL', () => {
  const another = { did: `${did}b` }

  it.each([
    // The first write of large content consists of 5 statements, and requests the upload.
    ['small', 'a', 2, 1],
    ['large', createLargeBytes('a'), 5 + 2, 2]
  ] as const)(
    'is not repeated if another user adds its %s content before the lock, and then removes it',
    async (_size, content, untilLock, untilStored) => {
      const gate = gatedPool(files.url)
      const [slow, store] = [await files.open({ source: gate, objects: files.objects }), await files.open()]
      gate.pauseBefore(untilLock)
      const write = slow.writeEntry(createEntry('k', content))
      await until(() => gate.isPaused())
      await store.writeEntry(createEntry('k', content, another))
      gate.pauseBefore(untilStored)
      gate.resume()
      await until(() => gate.isPaused())
      await store.removeEntries({ ...another, key: 'k' })
      gate.resume()
      await write
      expect([files.retries(), await readTexts(store, 'k')]).toEqual([{}, [String(content)]])
      expect(await files.leaks(store)).toEqual([])
      await gate.end()
    }
  )

  it('does not make the deletion of expired files wait, which skips the file', async () => {
    const gate = gatedPool(files.url)
    const [slow, store] = [await files.open({ source: gate }), await files.open()]
    for (const text of ['a', 'b']) await store.writeFile(createFile(text, { ttlSeconds: -1 }))
    files.clocks.advance(1_000)
    // The seventh statement stores the file.
    gate.pauseBefore(7)
    const write = slow.writeFile(createFile('a'))
    await until(() => gate.isPaused())
    await store.deleteExpiredFiles(files.clocks.seconds)
    expect(await files.query('SELECT cid FROM ~files')).toEqual([{ cid: computeCid('a') }])
    gate.resume()
    await write
    await gate.end()
  })

  it('does not make other writers of its content wait', async () => {
    const gate = gatedPool(files.url)
    const stores = [{ source: gate }, {}].map((source) => files.open({ ...source, tracksPins: true }))
    const [slow, store] = await Promise.all(stores)
    await store!.writeEntry(createEntry('k', 'a'))
    // The ninth statement commits.
    gate.pauseBefore(8)
    const write = slow!.writeEntry(createEntry('k', 'a', another))
    await until(() => gate.isPaused())
    await store!.writeEntry(createEntry('k', 'a', { did: `${did}c` }))
    gate.resume()
    await write
    await gate.end()
  })

  it.each(['foreign_key_violation', 'unique_violation'])('is repeated after a %s', async (condition) => {
    const store = await files.open()
    await files.query(`CREATE SEQUENCE attempts; CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN IF nextval('attempts') = 1 THEN RAISE ${condition}; END IF; RETURN new; END $$;
      CREATE TRIGGER fail_once BEFORE INSERT ON ~entries FOR EACH ROW EXECUTE FUNCTION fail_once()`)
    try {
      await store.writeEntry(createEntry('k', 'a'))
      expect(await readTexts(store, 'k')).toEqual(['a'])
    } finally {
      await files.query('DROP TRIGGER fail_once ON ~entries; DROP FUNCTION fail_once; DROP SEQUENCE attempts')
    }
  })

  it('keeps the pin of lost content that another entry uses', async () => {
    const store = await files.open({ tracksPins: true })
    for (const owner of [{}, another]) await store.writeEntry(createEntry('k', 'a', owner))
    await files.query('SET LOCAL session_replication_role = replica; DELETE FROM ~contents')
    await store.removeEntries({ ...another, key: 'k' })
    expect(await files.query('SELECT state FROM ~pins')).toEqual([{ state: 'pin' }])
  })

  it('waits on one connection together with all other writes of its user', async () => {
    const { store } = await files.openAll({ pool: { poolSize: 2 } })
    await store.writeEntry(createEntry('k', 'a'))
    let writes: Promise<unknown> | undefined
    await (
      await files.openAll()
    ).database.transaction(async (query) => {
      await query({ text: 'SELECT 1 FROM vault_owners FOR UPDATE' })
      writes = Promise.all(['b', 'c', 'd'].map((text) => store.writeEntry(createEntry('k', text))))
      const waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
      await until(async () => (await files.query(waiting)).length > 0)
      await store.writeEntry(createEntry('k', 'e', another))
    })
    await writes
    expect(await readTexts(store, 'k')).toEqual(['a', 'b', 'c', 'd'])
  })
})
