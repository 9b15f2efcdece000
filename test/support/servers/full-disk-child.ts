/**
 * Process whose folder is on a disk of 24 MiB: `full-disk-child.ts <folder>`. It fills the disk with content, removes
 * the content, and prints the results as JSON.
 */
import { rmSync, statfsSync, writeFileSync } from 'node:fs'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { did, createEntry, createLargeBytes, readTexts } from './content-stores.js'

const [, , folder = ''] = process.argv
const { store } = await openContentStore({ folder, database: 'vault.db' })

const catchCode = async (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'done',
    (error: unknown) => String((error as { code?: unknown }).code)
  )

async function fill(name: string, size: number): Promise<{ count: number; code: string }> {
  for (let count = 0; ; count += 1) {
    const code = await catchCode(store.writeEntry(createEntry(name, createLargeBytes(`${name} ${count} `, size))))
    if (code !== 'done') return { count, code }
  }
}

const large = await fill('large', 1_000_000)
const small = await fill('small', 20_000)
const tiny = await fill('tiny', 100)
// Fills the rest of the disk, so that certainly nothing is free.
const { bavail, bsize } = statfsSync(folder)
if (bavail > 0)
  await catchCode(Promise.resolve(bavail).then((free) => writeFileSync(`${folder}/filler`, Buffer.alloc(free * bsize))))

const ready = await catchCode(store.probe())
const read = (await readTexts(store, 'tiny')).length
const removals: string[] = []
const { entries } = await store.listEntries({ did, key: 'large' })
for (const { cid } of entries) removals.push(await catchCode(store.removeEntries({ did, key: 'large', cid })))
const all = await catchCode(store.removeEntries({ did, key: 'small' }))
const collected = await catchCode(store.collectGarbage(Math.floor(Date.now() / 1_000)))
rmSync(`${folder}/filler`, { force: true })
const after = [
  await catchCode(store.probe()),
  await catchCode(store.writeEntry(createEntry('after', createLargeBytes('x', 1_000_000))))
]
console.log(JSON.stringify({ large, small, tiny, ready, read, removals, all, collected, after }))
await store.close()
