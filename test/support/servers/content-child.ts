/**
 * Process that writes to a content store until it is killed: `content-child.ts <place> <name> <point> <when> <from>`.
 * For SQLite, the place is a folder. For PostgreSQL, it is a URL, a space and a folder for the spool.
 *
 * The process writes large and small content, replaces and removes it, and collects garbage, without end. It prints a
 * line before and after each write. `point` is a call of the object store: `put`, `delete` or `link`. After `from` such
 * calls, the process kills itself `before` or `after` the next one. Without a point, it runs until it is killed. After
 * SIGTERM, it completes its write and ends.
 */
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { writeSync } from 'node:fs'
import type { ObjectStore } from '../../../servers/content/content-store.js'
import type { TestStore } from './content-stores.js'

const [, , place = '', name = '', point = '', when = '', from = ''] = process.argv
let calls = 0

type Verb = (...args: unknown[]) => Promise<unknown>

/** Ends this process like `kill -9`. Nothing runs afterwards. */
function kill(): void {
  process.kill(process.pid, 'SIGKILL')
  for (;;);
}

/** Returns a function that calls another one, and kills this process before or after a call. */
const wrapWithKill =
  (run: Verb): Verb =>
  async (...args) => {
    calls += 1
    if (when === 'before' && calls > Number(from)) kill()
    const result = await run(...args)
    if (when === 'after' && calls > Number(from)) kill()
    return result
  }

// Replaces the function before the store is loaded, because the store imports it by name.
const files = createRequire(import.meta.url)('node:fs/promises') as Record<string, Verb>
if (point === 'link') {
  files.link = wrapWithKill(files.link!)
  syncBuiltinESMExports()
}

const { did, createEntry, createLargeBytes } = await import('./content-stores.js')
const { objects, open } = place.startsWith('postgres:') ? await onPostgres(place) : await onSqlite(place)
for (const verb of ['put', 'delete'] as const) {
  if (point !== verb) continue
  const target = objects as unknown as Record<string, Verb>
  target[verb] = wrapWithKill((objects[verb] as Verb).bind(objects))
}
const { store } = await open()

const collect = async (): Promise<never> => {
  for (;;) await store.collectGarbage(Math.floor(Date.now() / 1_000), { isFull: true })
}
void collect()
let isOver = false
process.once('SIGTERM', () => (isOver = true))

for (let writes = 0; !isOver; writes += 1) {
  const key = `${name} ${writes % 3}`
  const size = writes % 4 === 0 ? 100 : 100_000
  const text = `${name} ${writes} `
  writeSync(1, `write ${JSON.stringify([key, text, size])}\n`)
  try {
    await store.writeEntry(
      createEntry(key, createLargeBytes(text, size), { replaces: writes % 5 === 0 ? 'nothing' : 'all' })
    )
    writeSync(1, `written ${JSON.stringify([key, text, size])}\n`)
  } catch {
    // The write may fail, because the collector treats each upload as abandoned.
  }
  if (writes % 7 !== 0) continue
  writeSync(1, `remove ${JSON.stringify([key])}\n`)
  await store.removeEntries({ did, key })
  writeSync(1, `removed ${JSON.stringify([key])}\n`)
}
process.exit()

interface Place {
  readonly objects: ObjectStore
  open(): Promise<{ store: TestStore }>
}

async function onSqlite(folder: string): Promise<Place> {
  const { createFileObjectStore } = await import('../../../servers/content/files.js')
  const { openContentStore } = await import('../../../servers/content/sql/open-sqlite-contents.js')
  const objects = createFileObjectStore(`${folder}/objects`)
  return { objects, open: () => openContentStore({ folder, database: 'vault.db', objects }) }
}

async function onPostgres(urlAndFolder: string): Promise<Place> {
  const [url = '', folder = ''] = urlAndFolder.split(' ')
  const { PostgresDatabase } = await import('express-did-auth/stores/postgres')
  const { openPostgresContentStore } = await import('../../../servers/content/sql/open-postgres-contents.js')
  const { createPostgresObjectStore } = await import('../../../servers/content/sql/postgres-object-store.js')
  const database = new PostgresDatabase(`${url}?application_name=content-child`, { timeoutSeconds: 80 })
  const objects = createPostgresObjectStore(database, 'vault')
  return {
    objects,
    open: () => Promise.resolve(openPostgresContentStore({ database, tables: 'vault', folder, objects }))
  }
}
