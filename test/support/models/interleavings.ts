import { afterEach, beforeEach } from '@jest/globals'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { readField } from 'express-did-auth/server-kit'
import type { PostgresPool } from 'express-did-auth/stores/postgres'
import {
  computeCid,
  createContent,
  createEntry,
  createFile,
  createLargeBytes,
  NOW,
  readTexts
} from '../servers/content-stores.js'
import { createWrappedPool, usePostgresContents } from '../servers/postgres-contents.js'
import type { OpenedPostgres, PostgresContents } from '../servers/postgres-contents.js'
import { until } from '../fixtures/until.js'

/** Pool whose statements wait before one of them, so that a test decides what happens at that moment. */
export interface GatedPool extends PostgresPool {
  /** Makes the pool wait before its next statement number `count`, where 0 is the first. */
  pauseBefore(count: number): void
  /** Whether the pool waits, after all earlier statements were answered. */
  isPaused(): boolean
  resume(): void
}

/** Creates a pool with a gate before a statement. */
export function gatedPool(url: string): GatedPool {
  let [remaining, pendingAnswers, isWaiting] = [Infinity, 0, false]
  let open = (): void => undefined
  let lastSent: Promise<unknown> = Promise.resolve()
  const pass = async (): Promise<void> => {
    remaining -= 1
    if (remaining >= 0) return
    isWaiting = true
    remaining = Infinity
    await new Promise<void>((resolve) => (open = resolve))
  }
  const pool = createWrappedPool(url, (send) => async (statement) => {
    // Statements keep their order: one that waits also holds up the later ones.
    const sent = lastSent.then(pass).then(() => {
      pendingAnswers += 1
      return { answer: send(statement).finally(() => (pendingAnswers -= 1)) }
    })
    lastSent = sent
    return (await sent).answer
  })
  return Object.assign(pool, {
    pauseBefore: (count: number) => (remaining = count),
    isPaused: () => isWaiting && pendingAnswers === 0,
    resume: () => {
      isWaiting = false
      open()
    }
  })
}

/** Names of one run: its users, and the content that both verbs use. */
interface Run {
  readonly number: number
  readonly user: string
  readonly another: string
  readonly shared: Buffer
}

const LARGE_BYTES = 66_000
/** Time that a verb takes that waits for no lock. */
const USUAL_MILLISECONDS = 20
/** Time after which a store trusts the clock, and deletes expired files. */
const TRUSTED_SECONDS = 1_000
const nowSeconds = NOW + TRUSTED_SECONDS
const key = 'k'
/** ETag of the empty list: 32 zero bytes in base64url. */
const EMPTY_ETAG = `"${'A'.repeat(43)}"`

/** Verbs that run next to each other. Those that use a content use `shared`. */
export const verbs = {
  'adds the content': ({ store }: OpenedPostgres, { another, shared }: Run) =>
    store.writeEntry(createEntry(key, shared, { did: another })),
  'adds it to an empty list': ({ store }: OpenedPostgres, { user, shared }: Run) =>
    store.writeEntry(createEntry('other', shared, { did: user, ifNoneMatch: '*' })),
  'adds it beyond the quota': ({ store }: OpenedPostgres, { another, shared }: Run) =>
    store.writeEntry(createEntry(key, shared, { did: another, quota: { maxBytes: 1, maxEntries: 1 } })),
  'replaces the entry': ({ store }: OpenedPostgres, { user, number }: Run) =>
    store.writeEntry(createEntry(key, `new ${number}`, { did: user, replaces: 'all' })),
  'removes the entry': ({ store }: OpenedPostgres, { user }: Run) => store.removeEntries({ did: user, key }),
  'takes it down': ({ store }: OpenedPostgres, { shared }: Run) =>
    store.takeDown(computeCid(shared), 'order', nowSeconds),
  'collects garbage': ({ store }: OpenedPostgres) => store.collectGarbage(nowSeconds),
  'repairs it': ({ store }: OpenedPostgres, { shared }: Run) => store.repairContent(createContent(shared)),
  'posts a file': ({ store }: OpenedPostgres, { user, shared }: Run) =>
    store.writeFile(createFile(shared, { did: user, nowSeconds })),
  'deletes expired files': ({ store }: OpenedPostgres) => store.deleteExpiredFiles(nowSeconds),
  'corrects pins': ({ inspection }: OpenedPostgres) => inspection.trackPins({ isDryRun: false }),
  'corrects lists': ({ inspection }: OpenedPostgres) => inspection.recount({ isDryRun: false, acceptsDamage: true })
} satisfies Record<string, (opened: OpenedPostgres, run: Run) => Promise<unknown>>

export type VerbName = keyof typeof verbs

/** States in which verbs start: what uses the content or is wrong with it, and SQL that brings about the state. */
export const states = {
  'in an entry': "INSERT INTO vault_unreferenced VALUES ('<cid>', 1)",
  unused: `DELETE FROM vault_entries WHERE cid = '<cid>'; DELETE FROM vault_lists WHERE did = '<user>';
    DELETE FROM vault_owners WHERE did = '<user>'; INSERT INTO vault_unreferenced VALUES ('<cid>', 1)`,
  absent: '',
  'in an expired file': '',
  // Only a database that was restored without its foreign keys loses content.
  lost: `SET session_replication_role = replica; DELETE FROM vault_contents WHERE cid = '<cid>';
    RESET session_replication_role; DELETE FROM vault_objects WHERE name LIKE '<cid>.%'`,
  'without its pin': "DELETE FROM vault_pins WHERE cid = '<cid>'",
  'only a pin': `DELETE FROM vault_entries WHERE cid = '<cid>'; DELETE FROM vault_lists WHERE did = '<user>';
    DELETE FROM vault_owners WHERE did = '<user>'; DELETE FROM vault_contents WHERE cid = '<cid>';
    DELETE FROM vault_objects WHERE name LIKE '<cid>.%'`,
  'in a damaged list': `UPDATE vault_lists SET hash = '\\x${'00'.repeat(32)}' WHERE did = '<user>';
    UPDATE vault_owners SET byte_count = 7 WHERE did = '<user>'`
} as const

export type StartState = keyof typeof states

/** Runs verbs next to each other on two stores, and compares their result with both serial orders. */
export class Interleavings {
  readonly #files: PostgresContents
  readonly #gate: GatedPool
  readonly #monitor: pg.Client
  readonly #first: OpenedPostgres
  readonly #second: OpenedPostgres
  #runs = 0

  private constructor(files: PostgresContents, gate: GatedPool, monitor: pg.Client, opened: OpenedPostgres[]) {
    this.#files = files
    this.#gate = gate
    this.#monitor = monitor
    ;[this.#first, this.#second] = opened as [OpenedPostgres, OpenedPostgres]
  }

  static async open(files: PostgresContents): Promise<Interleavings> {
    const [gate, monitor] = [gatedPool(files.url), new pg.Client({ connectionString: files.url })]
    await monitor.connect()
    const sources = [{ source: gate }, {}]
    const opened = await Promise.all(sources.map((source) => files.openAll({ ...source, tracksPins: true })))
    files.clocks.advance(TRUSTED_SECONDS)
    return new Interleavings(files, gate, monitor, opened)
  }

  async close(): Promise<void> {
    await Promise.all([this.#gate.end(), this.#monitor.end()])
  }

  /**
   * Pauses the first verb before each of its statements in turn, and runs the second verb meanwhile, until it ends or
   * waits for a lock. Before the first statement, the second verb runs alone, and after the last one the first verb has
   * ended: these two runs are the serial orders.
   *
   * @returns results that neither serial order gives, and remaining garbage; empty without faults
   */
  async findFaults(state: StartState, isLarge: boolean, first: VerbName, second: VerbName): Promise<string[]> {
    const results: string[] = []
    for (let isOver = false; !isOver;) {
      const run = await this.#prepare(state, isLarge)
      this.#gate.pauseBefore(results.length)
      let [hasFirstEnded, hasSecondEnded] = [false, false]
      const firstOutcome = this.#run(this.#first, first, run).finally(() => (hasFirstEnded = true))
      await until(() => hasFirstEnded || this.#gate.isPaused())
      isOver = hasFirstEnded
      const secondOutcome = this.#run(this.#second, second, run).finally(() => (hasSecondEnded = true))
      // Asks the database only about a verb that has not ended after the time that it usually takes.
      await Promise.race([secondOutcome, pause(USUAL_MILLISECONDS)])
      await until(async () => hasSecondEnded || (await this.#isWaiting()))
      this.#gate.pauseBefore(Infinity)
      this.#gate.resume()
      results.push(await this.#describe(run, [await firstOutcome, await secondOutcome]))
    }
    const expected = [results[0], results.at(-1)]
    const faults = results.flatMap((result, count) =>
      expected.includes(result) ? [] : [`paused before statement ${count}: ${result}`]
    )
    const retries = this.#files.retries()
    if (Object.keys(retries).length > 0) faults.push(`repeated ${JSON.stringify(retries)}`)
    return [...faults, ...(await this.#files.leaks(this.#second.store))]
  }

  async #prepare(state: StartState, isLarge: boolean): Promise<Run> {
    const number = (this.#runs += 1)
    const shared = createLargeBytes(`shared ${number} `, isLarge ? LARGE_BYTES : 30)
    const run = { number, user: `did:example:${number}`, another: `did:example:another-${number}`, shared }
    const { store } = this.#second
    if (state === 'in an expired file')
      await store.writeFile(createFile(shared, { did: run.user, nowSeconds, ttlSeconds: -1 }))
    else if (state !== 'absent') await store.writeEntry(createEntry(key, shared, { did: run.user }))
    const text = states[state].replaceAll('<cid>', computeCid(shared)).replaceAll('<user>', run.user)
    await this.#monitor.query(text)
    return run
  }

  async #run(opened: OpenedPostgres, name: VerbName, run: Run): Promise<string> {
    try {
      const result: unknown = await verbs[name](opened, run)
      const isEmpty = readField(result, 'etag') === EMPTY_ETAG
      return isEmpty ? 'done, with the ETag of the empty list' : 'done'
    } catch (error) {
      const { code, message } = error as { code?: string; message: string }
      return code ?? message
    }
  }

  async #isWaiting(): Promise<boolean> {
    const { rowCount } = await this.#monitor.query(
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return rowCount !== 0
  }

  /** Describes outcomes and stored data, without the number of the run. */
  async #describe({ user, another, shared }: Run, outcomes: readonly string[]): Promise<string> {
    const { store } = this.#second
    await store.collectGarbage(nowSeconds)
    const cid = computeCid(shared)
    const readList = async (did: string, name: string): Promise<string[]> =>
      (await readTexts(store, name, did)).map((text) => text.slice(0, text.indexOf(' ')))
    const [lists, usage, { rows }] = await Promise.all([
      Promise.all([readList(user, key), readList(user, 'other'), readList(another, key)]),
      Promise.all([store.readUsage(user), store.readUsage(another)]),
      this.#monitor.query(
        `SELECT (SELECT count(*) FROM vault_contents WHERE cid = $1) AS contents,
          (SELECT count(*) FROM vault_files WHERE cid = $1) AS files,
          (SELECT count(*) FROM vault_denied WHERE cid = $1) AS denied,
          (SELECT state FROM vault_pins WHERE cid = $1) AS pin`,
        [cid]
      )
    ])
    return JSON.stringify([outcomes, lists, usage.map(({ entryCount }) => entryCount), rows[0]])
  }
}

/** Prepares an empty database and its interleavings for each test. Returns a function that returns both. */
export function useInterleavings(): () => { files: PostgresContents; interleavings: Interleavings } {
  const make = usePostgresContents()
  let [files, interleavings]: [PostgresContents?, Interleavings?] = []
  beforeEach(async () => {
    files = await make()
    interleavings = await Interleavings.open(files)
  })
  afterEach(async () => {
    await interleavings?.close()
    await files?.remove()
  })
  return () => ({ files: files!, interleavings: interleavings! })
}
