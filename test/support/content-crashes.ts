import { spawn, type ChildProcess } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { chooseSqliteEngine, openSqliteConnection } from '../../src/stores/sqlite/index.js'
import { did, objectNames, textsOf, type SqliteFolder, type TestStore } from './content-stores.js'

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

/** A writing process, with what it said. */
export interface ContentWriter {
  readonly child: ChildProcess
  readonly lines: string[]
  /** Resolves when it has said so many lines. */
  saidLines(count: number): Promise<void>
  /** The signal that ended it. */
  readonly ended: Promise<string | null>
}

/** Starts test/support/content-child.ts. */
export function startWriter(folder: string, name: string, ...point: string[]): ContentWriter {
  const imports = pathToFileURL(here('./server-imports.ts')).href
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--import', imports, here('./content-child.ts'), folder, name, ...point],
    { stdio: ['ignore', 'pipe', 'inherit'], env: { PATH: process.env.PATH } }
  )
  const lines: string[] = []
  const waiting: (() => void)[] = []
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line)
    for (const look of waiting) look()
  })
  const ended = new Promise<string | null>((resolve) =>
    child.once('close', (_code, signal) => {
      resolve(signal)
    })
  )
  const saidLines = (count: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (lines.length >= count) resolve()
      }
      waiting.push(look)
      look()
      void ended.then(() => {
        reject(new Error(`the writer ended after ${lines.length} lines`))
      })
    })
  return { child, lines, saidLines, ended }
}

interface Step {
  verb: string
  key: string
  text: string
}

/** What is wrong with a store after a writer was killed, by what that said, and what it leaked. */
export async function faultsAfter(
  store: TestStore,
  lines: readonly string[],
  leaks: () => Promise<string[]>
): Promise<string[]> {
  const faults: string[] = []
  const steps = lines.map(parseLine)
  for (const key of new Set(steps.map((step) => step.key))) {
    const { certain, possible } = expected(steps.filter((step) => step.key === key))
    const found = (await textsOf(store, key)).map((text) => text.slice(0, text.indexOf(' ', text.indexOf(' ') + 1) + 1))
    const isOne = [certain, possible].some((one) => one.join() === found.join())
    if (!isOne) faults.push(`${key} has ${found.join()}, not ${certain.join()} or ${possible.join()}`)
  }
  const usage = await store.usageOf(did)
  const entries = await store.listOwnEntries(did)
  const byteCount = entries.reduce((sum, entry) => sum + entry.byteCount, 0)
  if (usage.entryCount !== entries.length || usage.byteCount !== byteCount) faults.push('the owner is counted wrong')
  return [...faults, ...(await leaks())]
}

/** Objects that nothing uses, or that are not there, once all garbage is collected; and what lies in the spool. */
export async function leaksOf(files: SqliteFolder, store: TestStore): Promise<string[]> {
  // Long enough for each unfinished upload.
  files.clocks.advance(10_000)
  await store.collectGarbage(files.clocks.seconds)
  const connection = openSqliteConnection(files.file, chooseSqliteEngine(), {
    synchronous: 'OFF',
    busyMilliseconds: 1_000
  })
  try {
    const rows = (query: string): string[] =>
      connection
        .prepare(query)
        .all()
        .map((row) => String(Object.values(row)[0]))
    const used = rows('SELECT object FROM contents WHERE object IS NOT NULL ORDER BY object')
    const there = await objectNames(files.objects)
    const unused = rows(
      'SELECT cid FROM contents WHERE NOT EXISTS (SELECT 1 FROM entries WHERE entries.cid = contents.cid)'
    )
    return [
      ...(used.join() === there.join() ? [] : [`objects ${there.join()} for ${used.join()}`]),
      ...rows('SELECT object FROM garbage').map((object) => `garbage ${object}`),
      ...unused.map((cid) => `content ${cid} that nothing uses`),
      ...readdirSync(join(files.folder, 'spool')).map((name) => `spool ${name}`)
    ]
  } finally {
    connection.close()
  }
}

/** What a key has for certain, and what it has when the write that was not acknowledged happened. */
function expected(steps: readonly Step[]): { certain: string[]; possible: string[] } {
  let certain: string[] = []
  let possible: string[] = []
  for (const { verb, text } of steps) {
    const isAdd = verb.startsWith('writ') && Number(text.split(' ')[1]) % 5 === 0
    const after = verb.startsWith('remove') ? [] : isAdd ? [...certain, text] : [text]
    if (verb === 'written' || verb === 'removed') certain = after
    possible = after
  }
  return { certain, possible }
}

function parseLine(line: string): Step {
  const verb = line.slice(0, line.indexOf(' '))
  const [key, text = ''] = JSON.parse(line.slice(verb.length + 1)) as string[]
  return { verb, key: key!, text }
}
