/**
 * Measures and prints the figures of the PostgreSQL store, on a new PostgreSQL server:
 * - S2: CPU and WAL of each verb
 * - S3: rates with more connections while the network round trip is the limit
 * - S7: bytes on disk per session
 * - S8: rotations compared with the bare SQL statement
 *
 * A test measures S1.
 *
 * Run only this file with `npm run figures -- postgres`, or with fewer operations: `npm run figures -- postgres 500`.
 */
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { packReplacedToken } from '../../src/stores/replaced-tokens.js'
import { postgresDialect } from '../../src/stores/sql/dialect.js'
import { computeRowKey, sessionStatements } from '../../src/stores/sql/session-verbs.js'
import type { Store } from '../../src/ports.js'
import {
  createCharge,
  hashToken,
  createRotation,
  service,
  createSession,
  createUse
} from '../../src/testing/store-case.js'
import { runOn, startPostgres } from '../support/engines/postgres-server.js'
import { tcpProxy } from '../support/faults/tcp-proxy.js'
import { measure, measureRate, reportFigure } from './harness.js'

const sessions = Number(process.argv.slice(2).find((word) => /^\d+$/.test(word)) ?? 2_000)
const ROTATIONS = 20
/** Unit in which Linux counts the CPU time of processes. */
const MICROSECONDS_A_TICK = 10_000

const engine = await startPostgres({
  shared_preload_libraries: 'pg_stat_statements',
  fsync: 'on',
  wal_compression: 'on',
  autovacuum: 'off'
})
await runOn(engine.url(), 'CREATE EXTENSION pg_stat_statements')

const createDid = (index: number): string => `did:ethr:rsk:0x${hashToken('did', index).slice(0, 40)}`
const createNamedSession = (index: number) => createSession(String(index), { did: createDid(index) })

/** Returns the CPU time of the backend processes of the engine, in microseconds. */
async function readBackendCpu(): Promise<number> {
  const rows = await runOn(engine.url(), "SELECT pid FROM pg_stat_activity WHERE application_name = 'express-did-auth'")
  return rows.reduce((sum, { pid }) => {
    const fields = readFileSync(`/proc/${String(pid)}/stat`, 'utf8')
      .split(') ')[1]!
      .split(' ')
    return sum + (Number(fields[11]) + Number(fields[12])) * MICROSECONDS_A_TICK
  }, 0)
}

/** CPU time in microseconds and WAL in bytes, per call. */
interface Cost {
  cpu: number
  wal: number
}

/** Measures the mean cost of a call in PostgreSQL: CPU of the backend processes, and WAL of the store's statements. */
async function measureCost(store: Store, count: number, call: (index: number) => Promise<unknown>): Promise<Cost> {
  await store.ping()
  await runOn(engine.url(), 'CHECKPOINT')
  await runOn(engine.url(), 'SELECT pg_stat_statements_reset()')
  const before = await readBackendCpu()
  for (let index = 0; index < count; index += 1) await call(index)
  const cpu = (await readBackendCpu()) - before
  const [row] = await runOn(
    engine.url(),
    "SELECT sum(wal_bytes)::float AS wal FROM pg_stat_statements WHERE query LIKE '%did_auth_%'"
  )
  return { cpu: cpu / count, wal: Number(row?.wal) / count }
}

/** Prints S2 and S7. */
async function printCostFigures(): Promise<void> {
  const store = postgresStore(engine.url(), { poolSize: 1, timeoutSeconds: 60 })
  const show = (verb: string, { cpu, wal }: Cost, goal = '', isGood = true): void => {
    const text = `${verb}: ${cpu.toFixed(0)} µs of CPU in PostgreSQL, ${wal.toFixed(0)} B of WAL${goal}`
    reportFigure('S2', text, isGood)
  }
  show('ping, the baseline', await measureCost(store, sessions, () => store.ping()))
  show('createSession', await measureCost(store, sessions, (index) => store.createSession(createNamedSession(index))))
  const rotate = (rotation: number) => (index: number) =>
    store.rotateRefreshToken(createRotation(String(index), rotation, rotation + 1))
  show('rotate, first of each session: full-page writes, index updates', await measureCost(store, sessions, rotate(0)))
  const counters = 'SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1'
  const [before] = await runOn(engine.url(), counters, ['did_auth_sessions'])
  let rotationCount = sessions
  const warm = await measureCost(store, sessions * (ROTATIONS - 1), () => {
    const [rotation, index] = [Math.floor(rotationCount / sessions), rotationCount % sessions]
    rotationCount += 1
    return rotate(rotation)(index)
  })
  await store.close()
  const [after] = await runOn(engine.url(), counters, ['did_auth_sessions'])
  const difference = (name: string): number => Number(after?.[name]) - Number(before?.[name])
  const hot = difference('n_tup_hot_upd') / difference('n_tup_upd')
  const isGood = warm.cpu <= 250 && warm.wal <= 600 && hot >= 0.95
  show(`rotate, ${(hot * 100).toFixed(0)} % HOT`, warm, ' (goal 250 µs, 600 B, 95 %)', isGood)
  const [size] = await runOn(engine.url(), "SELECT pg_total_relation_size('did_auth_sessions')::float AS bytes")
  const bytes = Number(size?.bytes) / sessions
  reportFigure('S7', `${bytes.toFixed(0)} B a session on disk after ${ROTATIONS} refreshes (goal 1500)`, bytes <= 1500)
  const secondStore = postgresStore(engine.url(), { poolSize: 1, timeoutSeconds: 60 })
  const quota = await measureCost(secondStore, sessions * 5, (index) =>
    secondStore.chargeQuota(createCharge({ key: String(index % sessions) }))
  )
  show('chargeQuota', quota, ' (goal 120 µs)', quota.cpu <= 120)
  const use = await measureCost(secondStore, sessions, (index) =>
    secondStore.consumeChallenge(createUse({ did: createDid(index) }))
  )
  show('consumeChallenge', use)
  await secondStore.close()
}

/** Prints S3: the rates of the same work over a slow network, with 1 to 64 connections. */
async function printScalingFigures(): Promise<void> {
  const proxy = await tcpProxy(engine.port)
  proxy.delay(5)
  const rates = new Map<string, number[]>()
  for (const connections of [1, 4, 16, 64]) {
    const url = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`
    const store = postgresStore(url, { poolSize: connections, timeoutSeconds: 60 })
    await Promise.all(Array.from({ length: connections }, () => store.ping()))
    const run = `scaling ${connections}`
    const verbs: Record<string, (number: number) => Promise<unknown>> = {
      login: async (number) => {
        await store.consumeChallenge(createUse({ did: `did:example:${run}-${number}` }))
        await store.createSession(createSession(`${run} ${number}`, { did: `did:example:${run}-${number}` }))
      },
      refresh: async (number) => {
        await store.findSession(service, `session-${number % sessions}`)
        await store.rotateRefreshToken(createRotation(String(number % sessions), 'x', 'y'))
      },
      quota: (number) => store.chargeQuota(createCharge({ key: `${run} ${number}` }))
    }
    for (const [verb, call] of Object.entries(verbs)) {
      rates.set(verb, [...(rates.get(verb) ?? []), await measureRate(connections, 3, call)])
    }
    await store.close()
  }
  for (const [verb, [one = NaN, four = NaN, sixteen = NaN, sixtyFour = NaN]] of rates) {
    const ratios = [four / one, sixteen / one, sixtyFour / one].map((ratio) => ratio.toFixed(1))
    const text = `${verb}, round trip of 10 ms: 4, 16, 64 connections reach ${ratios.join(' ×, ')} × the rate of one`
    reportFigure('S3', `${text} (goal 14.4 × at 16)`, sixteen / one >= 14.4)
  }
  await proxy.close()
}

/**
 * Prints S8: the rate of this package's rotations compared with that of the bare statement. Both use the same driver
 * and are measured alternately.
 */
async function printOverheadFigure(): Promise<void> {
  const connections = 8
  const pool = new pg.Pool({ connectionString: engine.url(), max: connections })
  const store = postgresStore(engine.url(), { poolSize: connections, timeoutSeconds: 60 })
  await store.ping()
  const create = async (name: string): Promise<void> => {
    for (let index = 0; index < 200; index += 1) {
      await store.createSession(
        createSession(`${name} ${index}`, { did: createDid(index + (name === 'ours' ? 0 : 1e6)) })
      )
    }
  }
  await create('ours')
  await create('bare')
  const steps = { ours: new Map<number, number>(), bare: new Map<number, number>() }
  const createNext = (which: 'ours' | 'bare', number: number) => {
    const index = number % 200
    const step = steps[which].get(index) ?? 0
    steps[which].set(index, step + 1)
    return createRotation(`${which} ${index}`, step, step + 1)
  }
  const { rotate } = sessionStatements({ dialect: postgresDialect })
  const bytes = (hash: string): Buffer => Buffer.from(hash, 'base64url')
  const calls = {
    ours: (number: number) => store.rotateRefreshToken(createNext('ours', number)),
    bare: (number: number) => {
      const { sessionId, presentedHash, nextHash, nowSeconds, nextExpiresAtSeconds } = createNext('bare', number)
      const tokens = [bytes(presentedHash), bytes(nextHash), packReplacedToken(presentedHash, nowSeconds)]
      const values = [computeRowKey(service, sessionId), ...tokens, null, nowSeconds, nextExpiresAtSeconds, 1, 1]
      return pool.query({ name: 'bare', text: rotate.text, values })
    }
  }
  const rate = (which: 'ours' | 'bare') => () => measureRate(connections, 1, calls[which])
  const comparison = { goal: '>= 0.6', unit: 'rotations/s by the same driver' }
  await measure('S8 rotations: package / bare statement', comparison, { ours: rate('ours'), bare: rate('bare') })
  await pool.end()
  await store.close()
}

try {
  await printCostFigures()
  await printScalingFigures()
  await printOverheadFigure()
} finally {
  await engine.remove()
}
