import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import {
  did,
  readTexts,
  sqliteFolder,
  type ContentFolder,
  type TestStore
} from '../../support/servers/content-stores.js'
import { usePostgresContents } from '../../support/servers/postgres-contents.js'
import { nameOptions, nodeOptions, scriptFile } from '../../support/servers/run-script.js'
import { until } from '../../support/fixtures/until.js'

/** Number of attempts per crash point. */
const ROUNDS = Number(process.env.TEST_CRASH_ROUNDS ?? 1)

const POINTS = [
  ['put', 'before', 'the name is recorded as garbage, and nothing is written'],
  ['link', 'before', 'the file is synced, but not yet linked'],
  ['link', 'after', 'the object is linked, but its folder is not synced'],
  ['put', 'after', 'the object is complete, but not in use'],
  ['delete', 'before', 'the collector claimed the object, which still exists'],
  ['delete', 'after', 'the collector deleted the object, whose row still exists']
] as const

const listPoints = (engine: string): readonly (readonly [verb: string, when: string, what: string, round: number])[] =>
  POINTS.filter(([verb]) => engine === 'SQLite' || verb !== 'link').flatMap((point) =>
    Array.from({ length: ROUNDS }, (_, round) => [...point, round + 1] as const)
  )

const engines: [name: string, make: () => ContentFolder | Promise<ContentFolder>][] = [
  ['SQLite', sqliteFolder],
  ['PostgreSQL', usePostgresContents()]
]

describe.each(engines)('a killed writer of large content on %s, with a running collector', (engine, make) => {
  let files: ContentFolder
  beforeEach(async () => {
    files = await make()
    // The writers use the real clock.
    files.clocks.seconds = Math.floor(Date.now() / 1_000)
  })
  afterEach(() => files.remove())

  /** Finds faults after the writers were killed. Opening the store clears their spool. */
  const findFaults = async (...writers: Writer[]): Promise<string[]> => {
    // PostgreSQL may still run the last statement of a killed client.
    const running = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'content-child'"
    if (engine === 'PostgreSQL') await until(async () => (await files.query(running)).length === 0)
    const store = await files.open()
    const lines = writers.flatMap((writer) => writer.lines)
    return [...(await findFaultsAfter(store, lines)), ...(await files.leaks(store))]
  }

  it.each(listPoints(engine))(
    'loses nothing acknowledged and leaves nothing behind at %s %s: %s (round %d)',
    async (verb, when) => {
      const writer = startWriter(files.place, 'a', verb, when, '6')
      expect(await writer.ended).toBe('SIGKILL')
      expect(await findFaults(writer)).toEqual([])
    }
  )

  it.each(Array.from({ length: ROUNDS }, (_, round) => 20 + ((round * 7) % 40)))(
    'loses nothing when killed after %d lines, while another process writes to the same storage',
    async (lines) => {
      const [writer, another] = [startWriter(files.place, 'a'), startWriter(files.place, 'b')]
      await Promise.all([writer.wrote(lines), another.wrote(20)])
      await writer.end('SIGKILL')
      await another.wrote(another.lines.length + 4)
      await another.end('SIGKILL')
      expect(await findFaults(writer, another)).toEqual([])
    }
  )

  it('loses no upload to a collector that considers every upload unfinished', async () => {
    const collector = await files.open()
    files.clocks.advance(20_000)
    const writer = startWriter(files.place, 'a')
    let isOver = false
    const collecting = (async () => {
      while (!isOver) {
        await collector.collectGarbage(files.clocks.seconds)
        await new Promise(setImmediate)
      }
    })()
    await writer.wrote(30)
    // SIGKILL after an upload would leave an object that this collector no longer tracks.
    await writer.end('SIGTERM')
    isOver = true
    await collecting
    expect(await findFaults(writer)).toEqual([])
  })
})

/** A writing process and the lines that it printed. */
interface Writer {
  readonly lines: readonly string[]
  /** Resolves when the process has printed `count` lines. */
  wrote(count: number): Promise<void>
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<unknown>
  /** Resolves with the signal that ended the process. */
  readonly ended: Promise<string | null>
}

/** Starts a process that runs test/support/servers/content-child.ts. */
function startWriter(place: string, name: string, ...point: string[]): Writer {
  const script = scriptFile('test/support/servers/content-child.ts')
  const child: ChildProcess = spawn(
    process.execPath,
    [...nodeOptions, ...nameOptions(), script, place, name, ...point],
    { stdio: ['ignore', 'pipe', 'inherit'], env: { PATH: process.env.PATH } }
  )
  const lines: string[] = []
  const output = createInterface({ input: child.stdout! }).on('line', (line) => lines.push(line))
  const ended = new Promise<string | null>((resolve) => {
    child.once('close', (_code, signal) => resolve(signal))
  })
  const wrote = (count: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const checkCount = (): void => {
        if (lines.length >= count) resolve()
      }
      output.on('line', checkCount)
      checkCount()
      void ended.then(() => reject(new Error(`the writer ended after ${lines.length} lines`)))
    })
  const end = (signal: 'SIGKILL' | 'SIGTERM'): Promise<unknown> => {
    child.kill(signal)
    return ended
  }
  return { lines, wrote, end, ended }
}

interface Step {
  readonly verb: string
  readonly key: string
  readonly text: string
}

/** Compares a store with the lines that killed writers printed, and returns the faults. */
async function findFaultsAfter(store: TestStore, lines: readonly string[]): Promise<string[]> {
  const faults: string[] = []
  const steps = lines.map((line): Step => {
    const verb = line.slice(0, line.indexOf(' '))
    const [key = '', text = ''] = JSON.parse(line.slice(verb.length + 1)) as string[]
    return { verb, key, text }
  })
  for (const key of new Set(steps.map((step) => step.key))) {
    const { certain, possible } = computeExpected(steps.filter((step) => step.key === key))
    const storedTexts = (await readTexts(store, key)).map((text) =>
      text.slice(0, text.indexOf(' ', text.indexOf(' ') + 1) + 1)
    )
    const isExpected = [certain, possible].some((texts) => texts.join() === storedTexts.join())
    if (!isExpected) faults.push(`${key} has ${storedTexts.join()}, not ${certain.join()} or ${possible.join()}`)
  }
  const usage = await store.readUsage(did)
  const entries = await store.listOwnEntries(did)
  const byteCount = entries.reduce((sum, entry) => sum + entry.byteCount, 0)
  if (usage.entryCount !== entries.length || usage.byteCount !== byteCount) faults.push('the owner is counted wrong')
  return faults
}

/** Computes the acknowledged content of a key, and its content if the unacknowledged write happened. */
function computeExpected(steps: readonly Step[]): { certain: string[]; possible: string[] } {
  let certain: string[] = []
  let possible: string[] = []
  for (const { verb, text } of steps) {
    const isAdd = verb.startsWith('writ') && Number(text.split(' ')[1]) % 5 === 0
    possible = verb.startsWith('remove') ? [] : isAdd ? [...certain, text] : [text]
    if (verb === 'written' || verb === 'removed') certain = possible
  }
  return { certain, possible }
}
