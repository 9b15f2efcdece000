/**
 * P7: reads and writes of a vault with 1,000,000 entries, compared with those of a vault with 1,000 entries in the same
 * run. `npm run bench vault [entries]`
 */
import { join } from 'node:path'
import { pino } from 'pino'
import { createContentRepair } from '../../servers/ipfs/content-repair.js'
import { openContentStore } from '../../servers/content/sql/open-sqlite-contents.js'
import { listText, readEntries } from '../../servers/vault/entries-answer.js'
import { createContent } from '../support/servers/content-stores.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { measureCalls, runInParallel, measure } from './harness.js'

const SMALL = 1_000
const LARGE = Number(process.argv.slice(2).find((word) => /^\d+$/.test(word)) ?? 1_000_000)
const ENTRIES_PER_DID = 100
const ROUNDS = 30
const quota = { maxBytes: Infinity, maxEntries: Infinity }

interface Subject {
  entryCount: number
  read: (number: number) => Promise<void>
  write: (number: number) => Promise<unknown>
  close: () => Promise<void>
}

const folder = temporaryFolder()
process.on('exit', folder.remove)

const createDid = (number: number): string =>
  `did:ethr:rsk:0x${Math.floor(number / ENTRIES_PER_DID)
    .toString(16)
    .padStart(40, '0')}`
const createKey = (number: number): string => `key ${number % ENTRIES_PER_DID}`
/** Returns a content with the length of a small encrypted credential. */
const contentAt = (number: number): Buffer => Buffer.from(`content ${number} `.padEnd(200, 'x'))

/** Returns numbers of entries that are spread over the whole database, like those of real users. */
const spread = (number: number, entryCount: number): number => (number * 7_919) % entryCount

async function subject(entryCount: number): Promise<Subject> {
  const options = { folder: join(folder.path, String(entryCount)), database: 'vault.db' }
  const filled = await openContentStore({ ...options, isDurable: false })
  await runInParallel(1_000, entryCount, (number) =>
    filled.store.writeEntry({
      did: createDid(number),
      key: createKey(number),
      content: createContent(contentAt(number)),
      replaces: 'nothing',
      quota
    })
  )
  await filled.store.close()

  const { store } = await openContentStore(options)
  const repair = createContentRepair({ store, node: undefined, log: pino({ level: 'silent' }) })
  return {
    entryCount,
    read: async (number) => {
      const entryId = { did: createDid(number), key: createKey(number) }
      let byteCount = 0
      const text = listText(entryId.key, await store.listEntries(entryId))
      for await (const piece of readEntries({ store, repair }, entryId.did, text)) byteCount += piece.length
      if (byteCount < 200) throw new Error('nothing was read')
    },
    write: (number) => {
      const entryId = { did: createDid(spread(number, entryCount)), key: `new ${number}` }
      const content = createContent(contentAt(entryCount + number))
      return store.writeEntry({ ...entryId, content, replaces: 'nothing', quota })
    },
    close: () => store.close()
  }
}

const startedAt = performance.now()
const [small, large] = [await subject(SMALL), await subject(LARGE)]
console.log(`filled ${SMALL} and ${LARGE} entries in ${Math.round((performance.now() - startedAt) / 1e3)} s`)
/** Number of calls so far, so that no call uses the entry of another call. */
let number = 0
for (const [verb, calls, goal] of [
  ['read', 400, '<= 2.0'],
  ['write', 40, '<= 1.3']
] as const) {
  for (const clock of ['CPU', 'the clock']) {
    const run = (subject: Subject) => async (): Promise<number> => {
      const first = (number += calls)
      const call = (index: number): Promise<unknown> =>
        verb === 'read' ? subject.read(spread(first + index, subject.entryCount)) : subject.write(first + index)
      const { microseconds, aSecond } = await measureCalls(1, calls, call)
      return clock === 'CPU' ? microseconds : 1e6 / aSecond
    }
    const comparison = { goal, unit: `µs by ${clock}`, rounds: ROUNDS }
    await measure(`P7 ${verb}, by ${clock}`, comparison, { large: run(large), small: run(small) })
  }
}
await large.close()
await small.close()
