/**
 * P7: reads and writes of a vault with 1,000,000 entries over those of one with 1,000, side by side in one run.
 *
 * `npx tsx --import ./test/support/server-imports.ts test/bench/bench-vault.ts [entries]`
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { ContentRepair } from '../../servers/ipfs/content-repair.js'
import { openContentStore } from '../../servers/storage/sqlite/open-content-store.js'
import { EntryReader } from '../../servers/vault/read-entries.js'
import { listAnswer } from '../../servers/vault/vault-answers.js'
import { Vault } from '../../servers/vault/vault.js'
import { newContent } from '../support/content-stores.js'
import { median } from './median.js'
import { printFigure } from './report-figure.js'

const SMALL = 1_000
const LARGE = 1_000_000
const ENTRIES_PER_DID = 100
/** Writes under way at once while a vault is filled. */
const BATCH = 1_000
const ROUNDS = 30
const READS = 400
const WRITES = 40
const quota = { maxBytes: Infinity, maxEntries: Infinity }

interface Subject {
  entryCount: number
  read: (number: number) => Promise<void>
  write: (number: number) => Promise<unknown>
  close: () => Promise<void>
}

const folder = mkdtempSync(join(tmpdir(), 'bench-vault-'))
process.on('exit', () => {
  rmSync(folder, { recursive: true, force: true })
})

const didOf = (number: number): string =>
  `did:ethr:rsk:0x${Math.floor(number / ENTRIES_PER_DID)
    .toString(16)
    .padStart(40, '0')}`
const keyOf = (number: number): string => `key ${number % ENTRIES_PER_DID}`
/** As long as a small encrypted credential. */
const contentAt = (number: number): Buffer => Buffer.from(`content ${number} `.padEnd(200, 'x'))

/** Entries are spread over the whole of what is there, as those who ask are. */
const spread = (number: number, entryCount: number): number => (number * 7_919) % entryCount

async function subject(entryCount: number): Promise<Subject> {
  const options = { folder: join(folder, String(entryCount)), database: 'vault.db' }
  const filled = await openContentStore({ ...options, isDurable: false })
  for (let from = 0; from < entryCount; from += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, entryCount - from) }, (_, offset) => from + offset)
    const add = (number: number) =>
      filled.store.writeEntry({
        did: didOf(number),
        key: keyOf(number),
        content: newContent(contentAt(number)),
        replaces: 'nothing',
        quota
      })
    await Promise.all(numbers.map(add))
  }
  await filled.store.close()

  const { store } = await openContentStore(options)
  const vault = new Vault({ store, pins: undefined, quota })
  const repair = new ContentRepair({ store, node: undefined, log: pino({ level: 'silent' }) })
  return {
    entryCount,
    read: async (number) => {
      const place = { did: didOf(number), key: keyOf(number) }
      const { entries } = await store.listEntries(place)
      let byteCount = 0
      const reader = new EntryReader({ store, repair }, place.did, listAnswer(place.key, entries))
      for await (const piece of reader.text()) byteCount += piece.length
      if (byteCount < 200) throw new Error('nothing was read')
    },
    write: (number) => {
      const place = { did: didOf(spread(number, entryCount)), key: `new ${number}` }
      return vault.write(place, newContent(contentAt(entryCount + number)), 'nothing')
    },
    close: () => store.close()
  }
}

/** Microseconds of one call, of this process's CPU and by the clock: medians of rounds that alternate between the two. */
async function measure(
  subjects: readonly Subject[],
  calls: number,
  call: (subject: Subject, number: number) => Promise<unknown>
): Promise<{ cpu: number; clock: number }[]> {
  const rounds = subjects.map((): { cpu: number[]; clock: number[] } => ({ cpu: [], clock: [] }))
  let number = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [place, one] of subjects.entries()) {
      const cpuBefore = process.cpuUsage()
      const startedAt = performance.now()
      for (let count = 0; count < calls; count += 1) await call(one, number + count)
      rounds[place]!.clock.push(((performance.now() - startedAt) * 1e3) / calls)
      const { user, system } = process.cpuUsage(cpuBefore)
      rounds[place]!.cpu.push((user + system) / calls)
    }
    number += calls
  }
  return rounds.map(({ cpu, clock }) => ({ cpu: median(cpu), clock: median(clock) }))
}

function print(what: string, goal: number, [small, large]: { cpu: number; clock: number }[]): void {
  for (const unit of ['cpu', 'clock'] as const) {
    const [before = 0, after = 0] = [small?.[unit], large?.[unit]]
    const ratio = (after / before).toFixed(2)
    printFigure(`${what}, ${unit}: ${before.toFixed(1)} µs, ${after.toFixed(1)} µs: ${ratio} × (goal ${goal} ×)`)
  }
}

/** P7 with so many entries in the larger of the two. */
export async function benchVault(large = LARGE): Promise<void> {
  const startedAt = performance.now()
  const subjects = [await subject(SMALL), await subject(large)]
  console.log(`filled ${SMALL} and ${large} entries in ${Math.round((performance.now() - startedAt) / 1e3)} s`)
  const read = await measure(subjects, READS, ({ read, entryCount }, number) => read(spread(number, entryCount)))
  print('P7 read', 2, read)
  print('P7 write', 1.3, await measure(subjects, WRITES, ({ write }, number) => write(number)))
  for (const { close } of subjects) await close()
}

if (process.argv[1]?.endsWith('bench-vault.ts') === true) await benchVault(Number(process.argv[2] ?? LARGE))
