/**
 * P7: reads and writes of a vault with 1,000,000 entries over those of one with 1,000, side by side in one run.
 *
 * `npx tsx test/bench/bench-vault.ts [entries]`
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { contentOf } from '../../servers/shared/content/content-blocks.js'
import { ContentStore } from '../../servers/shared/content/content-store.js'
import { openDatabase, type SqliteFile } from '../../servers/shared/content/database.js'
import { GroupCommit } from '../../servers/shared/content/group-commit.js'
import { entryReader } from '../../servers/vault/reads/entry-reader.js'
import { PinIntents } from '../../servers/vault/pins/pin-intents.js'
import { AnswerRoom } from '../../servers/vault/reads/answer-room.js'
import { ReadingGate } from '../../servers/vault/reads/reading-gate.js'
import { ReadingTurns } from '../../servers/vault/reads/reading-turns.js'
import { checkEntries } from '../../servers/vault/reads/send-entries.js'
import { VaultIndex } from '../../servers/vault/vault-index.js'
import { listAnswer } from '../../servers/vault/reads/vault-reads.js'
import { Vault } from '../../servers/vault/vault.js'
import { median } from './median.js'

const SMALL = 1_000
const LARGE = 1_000_000
const ENTRIES_PER_DID = 100
const BATCH = 10_000
const ROUNDS = 30
const READS = 400
const WRITES = 40

interface Subject {
  entryCount: number
  database: SqliteFile
  read: (number: number) => Promise<void>
  write: (number: number) => Promise<unknown>
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

function subject(entryCount: number): Subject {
  const database = openDatabase(join(folder, `${entryCount}.db`), { secureDelete: true })
  const index = new VaultIndex(database)
  const contents = new ContentStore(database)
  const commits = new GroupCommit(database)
  const intents = new PinIntents(database, commits)
  const add = database.transaction((from: number, to: number) => {
    for (let number = from; number < to; number += 1) {
      const content = contentOf(contentAt(number))
      contents.add(content)
      index.add(didOf(number), keyOf(number), { id: content.cid, byteCount: content.byteCount })
    }
  })
  for (let from = 0; from < entryCount; from += BATCH) add(from, Math.min(from + BATCH, entryCount))
  database.pragma('wal_checkpoint(TRUNCATE)')

  const quota = { byteCount: Infinity, entryCount: Infinity }
  const vault = new Vault({ index, contents, commits, intents, outbox: undefined, quota })
  const lost = { fetch: () => Promise.reject(new Error('lost')) }
  const shared = { turns: new ReadingTurns(), gate: new ReadingGate(), room: new AnswerRoom() }
  const reader = { destroyed: false, destroy: () => undefined, once: () => undefined }
  return {
    entryCount,
    database,
    read: async (number) => {
      const [did, key] = [didOf(number), keyOf(number)]
      const answer = listAnswer(entryReader({ index, contents, lost }, did), key, index.list(did, key))
      const { byteCount } = await checkEntries(shared, reader, answer)
      if (byteCount < 200) throw new Error('nothing was read')
    },
    write: (number) => vault.add(didOf(spread(number, entryCount)), `new ${number}`, contentAt(entryCount + number))
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
    console.log(`${what}, ${unit}: ${before.toFixed(1)} µs, ${after.toFixed(1)} µs: ${ratio} × (goal ${goal} ×)`)
  }
}

/** P7 with so many entries in the larger of the two. */
export async function benchVault(large = LARGE): Promise<void> {
  const startedAt = performance.now()
  const subjects = [subject(SMALL), subject(large)]
  console.log(`filled ${SMALL} and ${large} entries in ${Math.round((performance.now() - startedAt) / 1e3)} s`)
  const read = await measure(subjects, READS, ({ read, entryCount }, number) => read(spread(number, entryCount)))
  print('P7 read', 2.5, read)
  print('P7 write', 1.5, await measure(subjects, WRITES, ({ write }, number) => write(number)))
  for (const { database } of subjects) database.close()
}

if (process.argv[1]?.endsWith('bench-vault.ts') === true) await benchVault(Number(process.argv[2] ?? LARGE))
