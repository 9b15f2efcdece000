import type { Store } from '../../../src/ports.js'
import {
  chooseEngine,
  openConnection,
  type EngineName,
  type SqliteConnection
} from '../../../src/stores/sqlite/sqlite-engine.js'
import type { SweepTimes } from '../../../src/stores/sql/sql-store.js'
import { openSqliteStore, type SqliteStoreOptions } from '../../../src/stores/sqlite/sqlite-store.js'
import { SweepClock } from '../../../src/stores/sweep-clock.js'
import { temporaryFolder } from '../fixtures/store-folder.js'

/** Binding of SQLite under test: the one that the library chooses, or the other one in a project of the slow tests. */
export const engine: EngineName = (globalThis as { sqliteEngine?: EngineName }).sqliteEngine ?? chooseEngine()

/** Database file in its own folder, and the stores that are open on it. */
export interface SqliteFile {
  readonly file: string
  readonly folder: string
  /** Opens a store. By default, its sweeps trust each clock at once, because the clocks of tests jump. */
  store(options?: SqliteStoreOptions, times?: SweepTimes): Store
  /**
   * Opens a connection to the file, or to another one, with the engine of the stores. Two different engines in one
   * process would release each other's locks.
   */
  inspect(file?: string): SqliteConnection
  /** Returns all rows of a query. */
  rows(text: string, file?: string): Record<string, unknown>[]
  /** Closes everything, and removes the folder. */
  remove(): Promise<void>
}

/** Creates a folder for the file of a store. */
export function sqliteFile(): SqliteFile {
  const { path: folder, remove } = temporaryFolder()
  const file = `${folder}/auth.db`
  const open: { close(): unknown }[] = []
  const closeAtEnd = <T extends { close(): unknown }>(store: T): T => {
    open.push(store)
    return store
  }
  const inspect = (name = file): SqliteConnection =>
    closeAtEnd(openConnection(name, engine, { synchronous: 'NORMAL', busyMilliseconds: 100 }))
  return {
    file,
    folder,
    store: (options, times = { clock: new SweepClock(undefined, 0), graceSeconds: 0 }) =>
      closeAtEnd(openSqliteStore(file, options, engine, times)),
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
