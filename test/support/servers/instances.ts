import { expect } from '@jest/globals'
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { runOn } from '../engines/postgres-server.js'
import { freePort } from '../faults/tcp-proxy.js'
import { ask, findLosses, logIn, post, type Answer, type LoadSession, type Tokens } from './server-client.js'
import { ServerProcesses, type Env, type ServerCommand, type ServerProcess } from './server-process.js'
import { temporaryFolder } from '../fixtures/store-folder.js'
import { until } from '../fixtures/until.js'
import { createLoginText, createNumberedWallet } from '../fixtures/fixtures.js'

/** Returns the host of a server's URL, which is in its login message. */
export function findDomain(command: ServerCommand): string {
  return `${command}.example`
}

/** Environment of all instances. */
const SHARED: Env = {
  PRIVATE_KEY: '7'.repeat(64),
  CHALLENGE_SECRET: 'a secret that all instances share',
  LOG_LEVEL: 'warn',
  MAX_REQUESTS_PER_TIME_SLOT: '1000000',
  // A machine that pauses must not let a token expire, or make a late refresh look like a theft.
  ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400',
  REFRESH_REUSE_GRACE_SECONDS: '3600'
}

/** Instances of the servers on one database. Each is a process with its own folder. */
export class Instances {
  readonly #processes: ServerProcesses
  #count = 0

  /** @param env - variables of all instances, including `DATABASE_URL` */
  constructor(env: Env) {
    this.#processes = new ServerProcesses({ ...SHARED, ...env })
  }

  start(command: ServerCommand, env: Env = {}, hooks: readonly string[] = []): Promise<ServerProcess> {
    this.#count += 1
    const instance = {
      DATA_DIR: join(this.#processes.folder, String(this.#count)),
      SERVICE_URL: `https://${findDomain(command)}`
    }
    return this.#processes.start({ ...instance, ...env }, hooks, command)
  }

  startMany(count: number, command: ServerCommand, env?: Env, hooks?: readonly string[]): Promise<ServerProcess[]> {
    return Promise.all(Array.from({ length: count }, () => this.start(command, env, hooks)))
  }

  killAll(): Promise<void> {
    return this.#processes.killAll()
  }
}

/** Returns the number of deadlocks that PostgreSQL has detected in a database. */
export async function countDeadlocks(url: string): Promise<number> {
  const [row] = await runOn(url, 'SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()')
  return Number(row?.deadlocks)
}

/** Returns a function that returns the items in turn. */
export function createTurns<T>(items: readonly T[]): () => T {
  let next = 0
  return () => items[next++ % items.length]!
}

/** Number of clients of each kind, and the time in milliseconds that a client waits after a failure. */
const [AUTH_CLIENTS, VAULT_CLIENTS, WAIT_MILLISECONDS] = [8, 6, 20]
/** One of so many contents is large, so that it is not stored in its row. */
const LARGE_EVERY = 25
/** Number of writes in two seconds at the minimum rate of 50 writes per second. */
const WRITES_A_ROUND = 100

/** URLs of the instances that clients use. A test may change them. */
export interface Targets {
  auths: string[]
  vaults: string[]
}

/** Clients of many instances, which continue with another instance when one fails. */
export interface InstanceLoad {
  /** Number of answers by status; `none`: the connection broke. */
  readonly counts: ReadonlyMap<string, number>
  /** Answers that no client should get. */
  readonly problems: readonly string[]
  /** Returns the number of acknowledged writes so far. */
  acknowledged(): number
  /** Returns the time, in milliseconds, within which 99 % of the successful answers arrived. */
  p99(): number
  /** Stops the requests, and waits for the last answers. */
  stop(): Promise<void>
  /** Returns acknowledged writes that are lost or incomplete. Replaces the refresh tokens of all sessions. */
  findLosses(): Promise<string[]>
}

let wallets = 100_000

/**
 * Puts instances under a load of writes.
 *
 * @param mayBeUnavailable - whether clients may receive 503 with `Retry-After`
 */
export async function startInstanceLoad(targets: Targets, mayBeUnavailable: boolean): Promise<InstanceLoad> {
  const counts = new Map<string, number>()
  const problems: string[] = []
  const times: number[] = []
  const sessions: LoadSession[] = []
  let [acknowledged, turns, isStopping] = [0, 0, false]
  const pickUrl = (urls: readonly string[]): string => urls[(turns += 1) % urls.length]!

  /** Sends a request, and returns its answer if it is successful. */
  const call = async (send: () => Promise<Answer>): Promise<Answer | undefined> => {
    const startedAt = performance.now()
    const answer = await send().catch(() => undefined)
    const status = String(answer?.status ?? 'none')
    counts.set(status, (counts.get(status) ?? 0) + 1)
    if (answer !== undefined && answer.status < 300) {
      times.push(performance.now() - startedAt)
      return answer
    }
    const isUnavailable = mayBeUnavailable && answer?.status === 503 && answer.headers.has('retry-after')
    if (answer !== undefined && !isUnavailable) problems.push(`${status} ${answer.text}`)
    await pause(WAIT_MILLISECONDS)
    return undefined
  }
  const parseTokens = ({ text }: Answer): Tokens => JSON.parse(text) as Tokens

  const runOneSession = async (): Promise<void> => {
    const wallet = createNumberedWallet((wallets += 1))
    const { did } = wallet
    const response = await call(() => post(`${pickUrl(targets.auths)}/request-auth`, { did }))
    if (response === undefined) return
    const { challenge } = JSON.parse(response.text) as { challenge: string }
    const sig = wallet.personalSign(createLoginText(findDomain('auth'), challenge))
    const opened = await call(() => post(`${pickUrl(targets.auths)}/auth`, { did, sig }))
    if (opened === undefined) return
    let tokens = parseTokens(opened)
    const session: LoadSession = { refreshToken: tokens.refreshToken, state: 'active', isUncertain: false }
    const number = sessions.push(session)
    acknowledged += 1
    for (let turn = 0; turn < 4 && !isStopping; turn += 1) {
      session.isUncertain = true
      const { refreshToken } = tokens
      const answer = await call(() => post(`${pickUrl(targets.auths)}/refresh-token`, { refreshToken }))
      if (answer === undefined) return
      tokens = parseTokens(answer)
      Object.assign(session, { refreshToken: tokens.refreshToken, isUncertain: false })
      acknowledged += 1
    }
    if (number % 5 !== 0 || isStopping) return
    session.isUncertain = true
    const headers = { Authorization: `DIDAuth ${tokens.accessToken}` }
    if ((await call(() => post(`${pickUrl(targets.auths)}/logout`, {}, headers))) === undefined) return
    Object.assign(session, { state: 'loggedOut', isUncertain: false })
    acknowledged += 1
  }

  /** Writes the next content of a user, and repeats the request until it is acknowledged. */
  const write = async ({ accessToken, contents }: Writer): Promise<void> => {
    const number = contents.length
    const content = `content ${number} `.repeat(number % LARGE_EVERY === 1 ? 10_000 : 10)
    const headers = { Authorization: `DIDAuth ${accessToken}` }
    // A write without an answer may have been executed. It is repeated, and a repeated content is stored once.
    contents.push(content)
    while ((await call(() => post(`${pickUrl(targets.vaults)}/load`, { content }, headers))) === undefined);
    acknowledged += 1
  }

  const untilStopped = async (work: () => Promise<void>): Promise<void> => {
    while (!isStopping) await work()
  }
  const writers = await Promise.all(
    Array.from({ length: targets.vaults.length === 0 ? 0 : VAULT_CLIENTS }, async (): Promise<Writer> => {
      const wallet = createNumberedWallet((wallets += 1))
      const { accessToken } = await logIn(targets.vaults[0]!, wallet, findDomain('vault'))
      return { did: wallet.did, accessToken, contents: [] }
    })
  )
  const clients = [
    ...Array.from({ length: AUTH_CLIENTS }, () => untilStopped(runOneSession)),
    ...writers.map((writer) => untilStopped(() => write(writer)))
  ]
  return {
    counts,
    problems,
    acknowledged: () => acknowledged,
    p99: () => Math.round(times.toSorted((left, right) => left - right)[Math.floor(times.length * 0.99)] ?? 0),
    stop: async () => {
      isStopping = true
      await Promise.all(clients)
    },
    findLosses: async () => {
      const lost = await findLosses(targets.auths[0]!, sessions)
      const differences = await Promise.all(writers.map((writer) => findDifference(targets.vaults[0]!, writer)))
      return [...lost, ...differences.flat()]
    }
  }
}

/** Runs a test under load. Stops the load whatever the result, and expects that no acknowledged write is lost. */
export async function runUnderLoad(
  targets: Targets,
  mayBeUnavailable: boolean,
  test: (load: InstanceLoad) => Promise<void>
) {
  const load = await startInstanceLoad(targets, mayBeUnavailable)
  try {
    await test(load)
  } finally {
    await load.stop()
  }
  expect(load.problems).toEqual([])
  expect(await load.findLosses()).toEqual([])
}

/** Waits for a number of further acknowledged writes. */
export async function waitForWrites(load: InstanceLoad, count = WRITES_A_ROUND): Promise<void> {
  const before = load.acknowledged()
  await until(() => load.acknowledged() >= before + count)
}

/** Formats the number of answers by status. */
export function formatCounts({ counts }: InstanceLoad): string {
  return JSON.stringify(Object.fromEntries(counts))
}

interface Writer {
  did: string
  accessToken: string
  /** Contents in their order. All are acknowledged after the load has stopped. */
  contents: string[]
}

/** Compares a user's list and storage usage with the acknowledged contents. Returns the difference; empty: none. */
async function findDifference(url: string, { did, accessToken, contents }: Writer): Promise<string[]> {
  const { status, text } = await ask(`${url}/${did}/load`)
  const usage = await ask(`${url}/storage`, { headers: { Authorization: `DIDAuth ${accessToken}` } })
  const { used, usedEntries } = JSON.parse(usage.text) as { used: number; usedEntries: number }
  const expected = [200, contents.length, contents.reduce((sum, content) => sum + content.length, 0)]
  const isSame = text === JSON.stringify(contents)
  if (isSame && JSON.stringify([status, usedEntries, used]) === JSON.stringify(expected)) return []
  return [`${text.slice(0, 80)}: ${status}, ${usedEntries} entries, ${used} bytes, expected ${String(expected)}`]
}

const program = process.env.HAPROXY ?? 'haproxy'

/** Load balancer with the settings of servers/docker/haproxy.cfg. */
export interface Balancer {
  readonly url: string
  /** Whether it sends requests to an instance, by its port. */
  isUp(port: number): Promise<boolean>
  stop(): Promise<void>
}

/** Returns the error messages of HAProxy about a configuration; an empty text if it is valid. */
export function findConfigurationFaults(file: string): string {
  const { status, stdout, stderr } = spawnSync(program, ['-c', '-f', file], { encoding: 'utf8' })
  return status === 0 ? '' : `${stdout}${stderr}`
}

/**
 * Starts HAProxy in front of instances of the auth server.
 *
 * @param file - configuration, in which the ports replace the names of containers
 */
export async function startBalancer(file: string, ports: readonly number[]): Promise<Balancer> {
  const { path: folder, remove } = temporaryFolder()
  const [port, socket, configFile] = [await freePort(), join(folder, 'socket'), join(folder, 'haproxy.cfg')]
  const servers = ports.map((port) => `  server auth${port} 127.0.0.1:${port}`).join('\n')
  const config = readFileSync(file, 'utf8')
    // Leaves only the auth server, which HAProxy finds without a name server.
    .replace(/^(?:frontend|backend) (?:relay|relay_files|vault)\n(?: .*\n?)*/gm, '')
    .replace(/^resolvers docker\n(?: .*\n)*/m, '')
    .replace(' init-addr libc,none resolvers docker', '')
    .replace('bind :3000', `bind 127.0.0.1:${port}`)
    .replace(/^ *server-template auth .*$/m, servers)
    .replace(/^global$/m, `global\n  stats socket ${socket}`)
  writeFileSync(configFile, config)
  const child = spawn(program, ['-f', configFile, '-db'], { stdio: 'ignore' })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const isUp = async (instance: number): Promise<boolean> =>
    (await askHaproxy(socket, 'show stat')).split('\n').some((line) => {
      const [, name, ...columns] = line.split(',')
      return name === `auth${instance}` && columns.includes('UP')
    })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`HAProxy ended: ${findConfigurationFaults(configFile)}`)
    return (await Promise.all(ports.map(isUp))).every(Boolean)
  })
  return {
    url: `http://127.0.0.1:${port}`,
    isUp,
    stop: async () => {
      child.kill('SIGKILL')
      await ended
      remove()
    }
  }
}

/** Sends a command to HAProxy, and returns the answer; an empty text before HAProxy listens. */
function askHaproxy(socket: string, command: string): Promise<string> {
  return new Promise((resolve) => {
    let answer = ''
    const connection = connect(socket, () => connection.write(`${command}\n`))
    connection.on('data', (data) => (answer += String(data)))
    connection.on('error', () => undefined)
    connection.on('close', () => resolve(answer))
  })
}
