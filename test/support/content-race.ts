import { setTimeout as pause } from 'node:timers/promises'
import type { ObjectStore } from '../../servers/storage/object-store.js'
import { isMissing } from '../../servers/storage/storage-error.js'
import { cidOf, did as firstDid, entryOf, largeBytes, NOW, textsOf, type TestStore } from './content-stores.js'
import type { PostgresContents } from './postgres-contents.js'

const USERS = 5
/** Two of them are objects. */
const CONTENTS = ['', 'x', 'yy', '💥', String(largeBytes('large', 66_000)), String(largeBytes('larger', 300_000))]
const WORKERS_OF_STORE = 5
/** Collectors beside writers, which are to have most of the machine. */
const COLLECTOR_MILLISECONDS = 5

export interface RaceOptions {
  readonly operations: number
  /** Ends the race before all operations are done. */
  readonly maxSeconds?: number
  readonly stores: number
  /** Wraps where objects lie, for faults. */
  readonly objects?: (objects: ObjectStore) => ObjectStore
  /** What happens beside it, again and again, until the race is over. */
  readonly beside?: () => Promise<void>
}

export interface RaceOutcome {
  /** What is not as it has to be; none when all is well. */
  readonly faults: string[]
  readonly operations: number
  /** How often a statement or transaction was repeated, by SQLSTATE. */
  readonly retries: Record<string, number>
  /** Why verbs failed. */
  readonly refusals: string[]
}

/** One key, which one worker writes to: what its list is, or may be after a write that was not acknowledged. */
interface KeyModel {
  readonly did: string
  readonly key: string
  possible: string[][]
}

/**
 * Writers of few users and few contents on several stores with pools of their own, collectors beside them. Each key has one
 * writer, so that every list is known; users and contents are shared by many.
 */
export async function raceOfWriters(
  files: PostgresContents,
  { operations, maxSeconds = Infinity, stores: count, objects = (same) => same, beside }: RaceOptions
): Promise<RaceOutcome> {
  const opened = Array.from({ length: count }, () =>
    files.openAll({
      objects: objects(files.objects),
      tracksPins: true,
      pool: { poolSize: WORKERS_OF_STORE + 1, timeoutSeconds: 100 }
    })
  )
  let [left, isOver] = [operations, false]
  const end = performance.now() + maxSeconds * 1_000
  const refusals: string[] = []
  const models: KeyModel[] = []
  const worker = async (store: TestStore, model: KeyModel, random: () => number): Promise<void> => {
    while (left > 0 && performance.now() < end) {
      left -= 1
      const refusal = await step(store, model, random)
      if (refusal !== undefined) refusals.push(refusal)
    }
  }
  const repeat = async (work: () => Promise<void>): Promise<void> => {
    while (!isOver) {
      await work().catch(() => undefined)
      await pause(COLLECTOR_MILLISECONDS)
    }
  }
  const besides = opened.map(({ store }) => repeat(() => store.collectGarbage(NOW, { isFull: true })))
  if (beside !== undefined) besides.push(repeat(beside))
  await Promise.all(
    opened.flatMap(({ store }, instance) =>
      Array.from({ length: WORKERS_OF_STORE }, (_, number) => {
        const index = instance * WORKERS_OF_STORE + number
        const model = { did: `${firstDid}${index % USERS}`, key: `key ${index}`, possible: [[]] }
        models.push(model)
        return worker(store, model, randomOf(index + 1))
      })
    )
  )
  isOver = true
  await Promise.all(besides)
  const faults = await faultsOf(files, await files.open({ tracksPins: true }), models)
  const retries: Record<string, number> = {}
  for (const { database } of opened)
    for (const [code, times] of Object.entries(database.stats.retriesByCode))
      retries[code] = (retries[code] ?? 0) + times
  return { faults, operations: operations - left, retries, refusals }
}

/** One verb. What is not acknowledged may be done. @returns why it failed */
async function step(store: TestStore, model: KeyModel, random: () => number): Promise<string | undefined> {
  const { did, key } = model
  const pick = (): string => CONTENTS[Math.floor(random() * CONTENTS.length)]!
  const [text, named, choice] = [pick(), pick(), random()]
  const without = (list: string[], ...texts: string[]): string[] => list.filter((one) => !texts.includes(one))
  const add = (list: string[]): string[] => (list.includes(text) ? list : [...list, text])
  const verbs: [number, () => Promise<unknown>, (list: string[]) => string[]][] = [
    [0.4, () => store.writeEntry(entryOf(key, text, { did })), add],
    [0.6, () => store.writeEntry(entryOf(key, text, { did, replaces: 'all' })), () => [text]],
    [
      0.75,
      () => store.writeEntry(entryOf(key, text, { did, replaces: { cid: cidOf(named) } })),
      (list) => [...without(list, text, named), text]
    ],
    [0.9, () => store.removeEntries({ did, key, cid: cidOf(named) }), (list) => without(list, named)],
    [1, () => store.removeEntries({ did, key }), () => []]
  ]
  const [, run, after] = verbs.find(([limit]) => choice < limit)!
  const next = model.possible.map(after)
  try {
    await run()
    model.possible = next
    return undefined
  } catch (failure) {
    model.possible = distinct([...model.possible, ...next])
    // Asked until it answers: what is there now is what the next verb begins with.
    for (;;) {
      try {
        model.possible = matching(model.possible, await textsOf(store, key, did))
        return reasonOf(failure)
      } catch (error) {
        if (isMissing(error)) throw error
      }
    }
  }
}

function matching(possible: string[][], found: string[]): string[][] {
  const same = possible.filter((one) => one.join('\n') === found.join('\n'))
  if (same.length === 0)
    throw Object.assign(new Error(`found ${found.map(brief).join()}`), { code: 'ERR_CONTENT_MISSING' })
  return [found]
}

async function faultsOf(files: PostgresContents, store: TestStore, models: readonly KeyModel[]): Promise<string[]> {
  const faults: string[] = []
  for (const { did, key, possible } of models) {
    const found = await textsOf(store, key, did)
    if (!possible.some((one) => one.join('\n') === found.join('\n'))) {
      faults.push(
        `${did} ${key} has ${found.map(brief).join()}, not ${possible.map((one) => one.map(brief).join()).join(' or ')}`
      )
    }
  }
  for (const did of new Set(models.map((model) => model.did))) {
    const entries = await store.listOwnEntries(did)
    const usage = { byteCount: entries.reduce((sum, one) => sum + one.byteCount, 0), entryCount: entries.length }
    const counted = await store.usageOf(did)
    if (JSON.stringify(counted) !== JSON.stringify(usage)) faults.push(`${did} is counted wrong`)
  }
  return [...faults, ...(await files.leaks(store))]
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}

const brief = (text: string): string => (text.length > 20 ? `${text.slice(0, 6)}…` : text)

function distinct(lists: string[][]): string[][] {
  return [...new Map(lists.map((list) => [list.join('\n'), list])).values()]
}

/** The same numbers in each run. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
