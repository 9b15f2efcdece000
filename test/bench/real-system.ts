/** The real thing: instances of an Express app, the way to the database, and a PostgreSQL started for it. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { startPostgres, type PostgresEngine } from '../support/postgres-server.js'
import { tcpProxy } from '../support/tcp-proxy.js'

/** What was used so far. */
export interface Usage {
  atSeconds: number
  /** CPU of each instance, user and system. */
  nodeMicroseconds: readonly number[]
  /** CPU of all processes of PostgreSQL but the one that answers this question. */
  postgresMicroseconds: number
}

export interface RealDatabase {
  readonly engine: PostgresEngine
  cpuMicroseconds(): number
  remove(): Promise<void>
}

export interface RealSystem {
  readonly ports: readonly number[]
  /** Adds to each round trip to the database from now on. */
  setTrip(milliseconds: number): void
  usage(): Promise<Usage>
  stop(): Promise<void>
}

/** A PostgreSQL that writes to its disk as one in production does. */
export async function startDatabase(): Promise<RealDatabase> {
  const engine = await startPostgres({ fsync: 'on' })
  const admin = new pg.Client({ connectionString: engine.url() })
  await admin.connect()
  const { rows } = await admin.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  const pid = rows[0]!.pid
  const postmaster = statOf(pid).parent
  return {
    engine,
    cpuMicroseconds: () => cpuOfTree(postmaster) - cpuOf(pid),
    async remove() {
      await admin.end()
      // The engine is a process that nothing of Node waits for.
      const wait = setInterval(() => undefined, 1_000)
      await engine.remove()
      clearInterval(wait)
    }
  }
}

/** Starts instances with pools of their own. `tripMilliseconds` are added to each round trip to the database. */
export async function startSystem(
  database: RealDatabase,
  { instances, poolSize, tripMilliseconds }: { instances: number; poolSize: number; tripMilliseconds: number }
): Promise<RealSystem> {
  const proxy = await tcpProxy(database.engine.port)
  const setTrip = (milliseconds: number): void => {
    proxy.delay(milliseconds / 2)
  }
  setTrip(tripMilliseconds)
  const url = new URL(database.engine.url())
  url.port = String(proxy.port)
  const script = fileURLToPath(new URL('instance-server.ts', import.meta.url))
  const children = Array.from({ length: instances }, () =>
    fork(script, [url.href, String(poolSize)], { execArgv: ['--import', 'tsx'] })
  )
  const ports = (await Promise.all(children.map(nextMessage))).map((message) => (message as { port: number }).port)
  return {
    ports,
    setTrip,
    async usage() {
      const answers = children.map(nextMessage)
      for (const child of children) child.send('usage')
      const told = (await Promise.all(answers)) as { cpuMicroseconds: number }[]
      return {
        atSeconds: performance.now() / 1000,
        nodeMicroseconds: told.map(({ cpuMicroseconds }) => cpuMicroseconds),
        postgresMicroseconds: database.cpuMicroseconds()
      }
    },
    async stop() {
      const ended = children.map((child) => once(child, 'exit'))
      for (const child of children) child.kill()
      await Promise.all(ended)
      await proxy.close()
    }
  }
}

function nextMessage(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      reject(new Error('an instance ended'))
    }
    child.once('exit', end)
    child.once('message', (message) => {
      child.off('exit', end)
      resolve(message)
    })
  })
}

/** CPU of a process and all its children, those that have ended included. */
function cpuOfTree(parent: number): number {
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger)
  const living = pids.filter((pid) => pid === parent || isChild(pid, parent))
  return living.reduce((sum, pid) => sum + cpuOf(pid), statOf(parent).endedChildrenMicroseconds)
}

function isChild(pid: number, parent: number): boolean {
  try {
    return statOf(pid).parent === parent
  } catch {
    // It has ended meanwhile.
    return false
  }
}

/** Microseconds, from the scheduler: the ticks in `stat` are 10 ms. */
function cpuOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1000
  } catch {
    return 0
  }
}

function statOf(pid: number): { parent: number; endedChildrenMicroseconds: number } {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // After the name, which may have spaces: state, parent, …
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const ticks = Number(fields[13]) + Number(fields[14])
  return { parent: Number(fields[1]), endedChildrenMicroseconds: ticks * 10_000 }
}
