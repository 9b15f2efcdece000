import type { ObjectStore } from '../../servers/storage/object-store.js'
import type { PostgresContents } from './postgres-contents.js'

/** Of so many calls of a verb, one fails before it is done and one after. */
const CALLS = 6

/** Makes objects fail as a store out of reach does: what was asked of it was done, or not. */
export function failingObjects(): (objects: ObjectStore) => ObjectStore {
  let calls = 0
  const failing = async (run: () => Promise<void>): Promise<void> => {
    const number = (calls += 1) % CALLS
    if (number === 0) throw failure()
    await run()
    if (number === CALLS / 2) throw failure()
  }
  return (objects) => ({
    put: (name, file) => failing(() => objects.put(name, file)),
    delete: (name, how) => failing(() => objects.delete(name, how)),
    read: (name) => objects.read(name),
    list: () => objects.list()
  })
}

/** Ends one connection of the stores each time, in the middle of whatever it does. */
export function randomEnds(files: PostgresContents): () => Promise<void> {
  return async () => {
    await files.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle' ORDER BY random() LIMIT 1`)
  }
}

function failure(): Error {
  return Object.assign(new Error('EIO'), { code: 'EIO' })
}
