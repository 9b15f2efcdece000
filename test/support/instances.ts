import { join } from 'node:path'
import { runOn } from './postgres-server.js'
import { ServerProcesses, type Env, type ServerCommand, type ServerProcess } from './server-process.js'
import { temporaryFolder } from './store-folder.js'

/** The host of a server's URL, which its login message names. */
export function domainOf(command: ServerCommand): string {
  return `${command}.example`
}

/** What every instance has in common. */
const SHARED: Env = {
  PRIVATE_KEY: '7'.repeat(64),
  CHALLENGE_SECRET: 'a secret that all instances share',
  LOG_LEVEL: 'warn',
  MAX_REQUESTS_PER_TIME_SLOT: '1000000',
  // A machine that stands still must not end a token, or call a late refresh a theft.
  ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400',
  REFRESH_REUSE_GRACE_SECONDS: '3600'
}

/** Instances of the servers on one database, each a process with a folder of its own. */
export class Instances {
  readonly #folder = temporaryFolder()
  readonly #processes: ServerProcesses
  #count = 0

  /** @param env - what all of them get, `DATABASE_URL` among it */
  constructor(env: Env) {
    this.#processes = new ServerProcesses({ ...SHARED, ...env })
  }

  start(command: ServerCommand, env: Env = {}, hooks: readonly string[] = []): Promise<ServerProcess> {
    this.#count += 1
    const own = { DATA_DIR: join(this.#folder.path, String(this.#count)), SERVICE_URL: `https://${domainOf(command)}` }
    return this.#processes.start({ ...own, ...env }, hooks, command)
  }

  startMany(count: number, command: ServerCommand, env?: Env, hooks?: readonly string[]): Promise<ServerProcess[]> {
    return Promise.all(Array.from({ length: count }, () => this.start(command, env, hooks)))
  }

  async killAll(): Promise<void> {
    await this.#processes.killAll()
    this.#folder.remove()
  }
}

/** How often PostgreSQL had to end a statement of a database because two waited for each other. */
export async function deadlocksOf(url: string): Promise<number> {
  const [row] = await runOn(url, 'SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()')
  return Number(row?.deadlocks)
}

/** One of them, in turn. */
export function inTurn<T>(items: readonly T[]): () => T {
  let next = 0
  return () => items[next++ % items.length]!
}

/** A number that the environment may set, to run a test at its full size. */
export function countOf(variable: string, usual: number): number {
  return Number(process.env[variable] ?? usual)
}

/** A line for readers of the figures. */
export function tell(line: string): void {
  process.stdout.write(`instances: ${line}\n`)
}
