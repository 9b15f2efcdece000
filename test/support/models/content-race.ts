import { setTimeout as pause } from 'node:timers/promises'
import type { ObjectStore } from '../../../servers/content/content-store.js'
import {
  computeCid,
  did as firstDid,
  createEntry,
  createLargeBytes,
  NOW,
  readTexts,
  type ContentFolder,
  type TestStore
} from '../servers/content-stores.js'

const USERS = 5
/** Contents; two of them are stored as objects. */
const CONTENTS = [
  '',
  'x',
  'yy',
  '💥',
  String(createLargeBytes('large', 66_000)),
  String(createLargeBytes('larger', 300_000))
]
const WORKERS_OF_STORE = 5
/** Pause between two rounds of a collector, so that the writers get most of the CPU. */
const COLLECTOR_MILLISECONDS = 5

export interface RaceOptions {
  readonly operations: number
  readonly stores: number
  /** Wraps the object store, to simulate faults. */
  readonly objects?: (objects: ObjectStore) => ObjectStore
  /** Runs repeatedly next to the race until it is over. */
  readonly background?: () => Promise<unknown>
}

export interface RaceOutcome {
  /** Differences from the expected state; empty without faults. */
  readonly faults: string[]
  /** Errors of verbs that failed. */
  readonly refusals: string[]
}

/** Key with one writer: its current list, or possible lists after an unacknowledged write. */
interface KeyModel {
  readonly did: string
  readonly key: string
  possible: string[][]
}

/**
 * Runs writers on several stores at the same time as garbage collectors. Each key has one writer, so that every list is
 * known. The few users and contents are shared by the writers.
 */
export async function raceOfWriters(
  files: ContentFolder,
  { operations, stores: count, objects = (same) => same, background }: RaceOptions
): Promise<RaceOutcome> {
  const options = { objects: objects(files.objects), tracksPins: true }
  const stores = await Promise.all(Array.from({ length: count }, () => files.open(options)))
  let [operationsLeft, isOver] = [operations, false]
  const refusals: string[] = []
  const repeat = async (work: () => Promise<unknown>): Promise<void> => {
    while (!isOver) {
      await work().catch(() => undefined)
      await pause(COLLECTOR_MILLISECONDS)
    }
  }
  const backgroundWork = stores.map((store) => repeat(() => store.collectGarbage(NOW, { isFull: true })))
  if (background !== undefined) backgroundWork.push(repeat(background))
  const models = Array.from({ length: count * WORKERS_OF_STORE }, (_, index): KeyModel => ({
    did: `${firstDid}${index % USERS}`,
    key: `key ${index}`,
    possible: [[]]
  }))
  await Promise.all(
    models.map(async (model, index) => {
      const random = createRandom(index + 1)
      while (operationsLeft > 0) {
        operationsLeft -= 1
        const refusal = await step(stores[index % count]!, model, random)
        if (refusal !== undefined) refusals.push(refusal)
      }
    })
  )
  isOver = true
  await Promise.all(backgroundWork)
  const faults = await findFaults(files, await files.open({ tracksPins: true }), models)
  return { faults, refusals }
}

/** Runs one verb. An unacknowledged verb may have been executed. @returns the error */
async function step(store: TestStore, model: KeyModel, random: () => number): Promise<string | undefined> {
  const { did, key } = model
  const pick = (): string => CONTENTS[Math.floor(random() * CONTENTS.length)]!
  const [text, named, choice] = [pick(), pick(), random()]
  const without = (list: string[], ...texts: string[]): string[] => list.filter((text) => !texts.includes(text))
  const add = (list: string[]): string[] => (list.includes(text) ? list : [...list, text])
  const verbs: [number, () => Promise<unknown>, (list: string[]) => string[]][] = [
    [0.4, () => store.writeEntry(createEntry(key, text, { did })), add],
    [0.6, () => store.writeEntry(createEntry(key, text, { did, replaces: 'all' })), () => [text]],
    [
      0.75,
      () => store.writeEntry(createEntry(key, text, { did, replaces: { cid: computeCid(named) } })),
      (list) => [...without(list, text, named), text]
    ],
    [0.9, () => store.removeEntries({ did, key, cid: computeCid(named) }), (list) => without(list, named)],
    [1, () => store.removeEntries({ did, key }), () => []]
  ]
  const [, run, after] = verbs.find(([limit]) => choice < limit)!
  const next = model.possible.map(after)
  try {
    await run()
    model.possible = next
    return undefined
  } catch (failure) {
    const possible = [...model.possible, ...next]
    // Reads until a read succeeds, because the next verb starts from the stored state.
    for (let state: string[] | undefined; state === undefined;) {
      const read = (state = await readTexts(store, key, did).catch(() => undefined))
      if (read === undefined) continue
      if (!possible.some((state) => isSame(state, read)))
        throw new Error(`${did} ${key} has ${toShortText(read)} after a failure`)
      model.possible = [read]
    }
    const { message, cause } = failure as Error
    return cause instanceof Error ? `${message}: ${cause.message}` : message
  }
}

async function findFaults(files: ContentFolder, store: TestStore, models: readonly KeyModel[]): Promise<string[]> {
  const faults: string[] = []
  for (const { did, key, possible } of models) {
    const texts = await readTexts(store, key, did)
    if (possible.some((state) => isSame(state, texts))) continue
    faults.push(`${did} ${key} has ${toShortText(texts)}, not ${possible.map(toShortText).join(' or ')}`)
  }
  for (const did of new Set(models.map((model) => model.did))) {
    const entries = await store.listOwnEntries(did)
    const usage = { byteCount: entries.reduce((sum, entry) => sum + entry.byteCount, 0), entryCount: entries.length }
    if (JSON.stringify(await store.readUsage(did)) !== JSON.stringify(usage)) faults.push(`${did} has a wrong usage`)
  }
  return [...faults, ...(await files.leaks(store))]
}

const isSame = (left: readonly string[], right: readonly string[]): boolean => left.join('\n') === right.join('\n')
const toShortText = (texts: readonly string[]): string => texts.map((text) => text.slice(0, 8)).join()

/** Creates a generator with the same numbers in each run. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Number of object calls of which one fails before its execution, and one after it. */
const CALLS = 6

/** Returns a wrapper whose calls sometimes fail with EIO, before or after their execution. */
export function failingObjects(): (objects: ObjectStore) => ObjectStore {
  let calls = 0
  const failure = (): Error => Object.assign(new Error('EIO'), { code: 'EIO' })
  const failing = async (run: () => Promise<void>): Promise<void> => {
    const number = (calls += 1) % CALLS
    if (number === 0) throw failure()
    await run()
    if (number === CALLS / 2) throw failure()
  }
  return (objects) => ({
    put: (name, file) => failing(() => objects.put(name, file)),
    delete: (name, how) => failing(() => objects.delete(name, how)),
    read: (name) => objects.read(name),
    list: () => objects.list()
  })
}

/** Returns a function that ends one random busy connection to the database per call. */
export function randomEnds(files: ContentFolder): () => Promise<unknown> {
  return () =>
    files.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle' ORDER BY random() LIMIT 1`)
}
