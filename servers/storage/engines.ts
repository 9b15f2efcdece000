import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from 'express-did-auth'
import { sqliteStore, type SqliteStoreOptions } from 'express-did-auth/stores/sqlite'
import type { ServerEnv } from '../config/read-env.js'
import { reasonOf, StartError, startStep } from '../config/startup-error.js'
import { ServerError } from '../http/server-error.js'
import { clockCheck, steadyClock, type ReferenceClock } from '../observability/clock-check.js'
import type { Dependency } from '../observability/health-checks.js'
import type { ContentMaintenance } from './content-store.js'
import { usedPercentOf, type UsedPercent } from './disk-space.js'
import { openContentStore, type OpenContentStore } from './sqlite/open-content-store.js'

/** How long an answer of the own storage is reused by `/ready`: each is a real write. */
const FRESH_MILLISECONDS = 5_000

/** A server's store of sessions, used challenges and quotas. */
export interface OpenedStore {
  readonly store: Store
  /** The part that lies in the database. */
  readonly durable: Pick<Store, 'ping'>
}

/**
 * The engines that keep the state of the servers of a process: SQLite and files in `DATA_DIR`, or what the environment
 * names.
 */
export class Engines {
  readonly #clock: { name: string; read: ReferenceClock } = { name: 'the time that has passed', read: steadyClock() }

  /** @throws StartError when an engine cannot be used as it is set up; one that is unavailable is waited for */
  static async open(_env: ServerEnv): Promise<Engines> {
    return Promise.resolve(new Engines())
  }

  /** @throws StartError */
  openStore(env: Pick<ServerEnv, 'DATA_DIR' | 'name'>, logger: SqliteStoreOptions['logger']): OpenedStore {
    const folder = dataFolder(env)
    const file = join(folder, 'auth.db')
    return startStep(`Cannot use ${file} (DATA_DIR)`, () => {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      const store = sqliteStore(file, logger === undefined ? {} : { logger })
      return { store, durable: store }
    })
  }

  /**
   * Opens what relay or vault store.
   *
   * @throws StartError
   */
  async openContents(env: ServerEnv): Promise<OpenContentStore> {
    const folder = dataFolder(env)
    const database = `${env.name}.db`
    try {
      return await openContentStore({
        folder,
        database,
        // The relay does not wait for the disk: the loss of power may cost its last files.
        isDurable: env.name !== 'relay',
        tracksPins: env.IPFS_API_URL !== undefined,
        oldFileTtlSeconds: env.RELAY_FILE_TTL_SECONDS
      })
    } catch (error) {
      if (error instanceof StartError) throw error
      const reason = reasonOf(error instanceof ServerError ? (error.cause ?? error) : error)
      throw new StartError(`Cannot use ${join(folder, database)} (DATA_DIR): ${reason}`, { cause: error })
    }
  }

  /** @throws StartError when relay or vault never stored anything here, so that an operator's command is at the wrong place */
  assertContents(env: ServerEnv): void {
    const file = join(dataFolder(env), `${env.name}.db`)
    if (!existsSync(file)) throw new StartError(`There is no ${env.name} in ${file} (DATA_DIR)`)
  }

  /** What `/ready` asks of a server's own storage, and of its clock. */
  dependenciesOf({ durable }: OpenedStore, contents?: Pick<ContentMaintenance, 'probe'>): Dependency[] {
    const check = remembered(() => Promise.all([durable.ping(), contents?.probe()]))
    return [
      { name: 'store', isNeeded: true, check },
      { name: 'clock', isNeeded: false, failure: 'wrong', check: clockCheck(this.#clock) }
    ]
  }

  /** How much of the disk is used that content lies on. */
  usedPercent(env: ServerEnv): UsedPercent {
    return usedPercentOf(dataFolder(env))
  }

  async close(): Promise<void> {
    return Promise.resolve()
  }
}

/** Where a server's own data lies. */
export function dataFolder({ DATA_DIR, name }: Pick<ServerEnv, 'DATA_DIR' | 'name'>): string {
  return join(DATA_DIR, name)
}

/** Asks at most once in 5 s, and gives the same answer in between. */
export function remembered(
  ask: () => Promise<unknown>,
  nowMilliseconds = (): number => performance.now()
): () => Promise<unknown> {
  let asked: { answer: Promise<unknown>; freshUntil: number } | undefined
  return () => {
    if (asked === undefined || nowMilliseconds() >= asked.freshUntil) {
      asked = { answer: ask(), freshUntil: nowMilliseconds() + FRESH_MILLISECONDS }
    }
    return asked.answer
  }
}
