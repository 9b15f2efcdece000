import type { Store } from '../../../src/ports.js'
import { openConnection, type EngineName, type SqliteConnection } from '../../../src/stores/sqlite/sqlite-engine.js'
import type { SweepTimes } from '../../../src/stores/sql/sql-store.js'
import { openSqliteStore, type SqliteStoreOptions } from '../../../src/stores/sqlite/sqlite-store.js'
import { SweepClock } from '../../../src/stores/sweep-clock.js'
import { temporaryFolder } from '../fixtures/store-folder.js'

/** The engines that work here: better-sqlite3 may be of another Node, and before version 13 aborts Node 24. */
export const engines: EngineName[] = (['node:sqlite', 'better-sqlite3'] as const).filter((engine) => {
  if (engine === 'better-sqlite3' && Number.parseInt(process.versions.node) >= 24) return false
  try {
    openConnection(':memory:', engine, { synchronous: 'NORMAL', busyMilliseconds: 0 }).close()
    return true
  } catch {
    return false
  }
})

/** A file in a folder of its own, with what is open on it. */
export interface SqliteFile {
  readonly file: string
  readonly folder: string
  /** A store whose sweeps trust each clock at once, because the clocks of tests jump. */
  store(options?: SqliteStoreOptions, times?: SweepTimes): Store
  /**
   * A connection to look into the file, or into another, of the same engine as the stores: two of them in one process
   * would drop each other's locks.
   */
  inspect(file?: string): SqliteConnection
  /** All rows that a text answers. */
  rows(text: string, file?: string): Record<string, unknown>[]
  /** Closes everything, and removes the folder. */
  remove(): Promise<void>
}

/** Makes a folder for the file of a store. */
export function sqliteFile(engine: EngineName = engines[0]!): SqliteFile {
  const { path: folder, remove } = temporaryFolder()
  const file = `${folder}/auth.db`
  const open: { close(): unknown }[] = []
  const opened = <T extends { close(): unknown }>(store: T): T => {
    open.push(store)
    return store
  }
  const inspect = (name = file): SqliteConnection =>
    opened(openConnection(name, engine, { synchronous: 'NORMAL', busyMilliseconds: 100 }))
  return {
    file,
    folder,
    store: (options, times = { clock: new SweepClock(undefined, 0), graceSeconds: 0 }) =>
      opened(openSqliteStore(file, options, engine, times)),
    inspect,
    rows: (text, name) =>
      inspect(name)
        .prepare(text)
        .all()
        .map((row) => ({ ...row })),
    async remove() {
      await Promise.all(open.map(async (store) => store.close()))
      remove()
    }
  }
}
