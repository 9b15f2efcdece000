/**
 * The figures of the stores: F1 to F4 on two processes with one SQLite file, P9 and F12 on the memory store, and what a
 * verb costs. Each prints one line; one that misses its goal sets the exit code.
 *
 * Alone: `npm run figures -- stores`
 */
import { randomBytes } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Store } from '../../src/ports.js'
import { MAX_REPLACED_TOKENS } from '../../src/protocol/session.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { chargeOf, hashOf, rotationOf, service, sessionOf, START_SECONDS, useOf } from '../../src/testing/store-case.js'
import { temporaryFolder } from '../support/store-folder.js'
import { forkStore, killWhileWriting, type StoreProcess } from '../support/store-processes.js'
import { findLosses, raceLogout, raceRotations, raceUses } from '../support/store-races.js'
import { reportFigure } from './report-figure.js'

/** F1 to F3: races between two processes, 200, 1,000 and 100 rounds. */
export async function raceFigures(): Promise<void> {
  const folder = temporaryFolder()
  const file = `${folder.path}/auth.db`
  const processes = await Promise.all([forkStore(file), forkStore(file)])
  const store = sqliteStore(file)
  const race = async (figure: string, what: string, rounds: number, run: (name: string) => Promise<string[]>) => {
    const faults: string[] = []
    for (let round = 0; round < rounds; round += 1) faults.push(...(await run(`${figure} ${round}`)))
    reportFigure(figure, `SQLite, two processes: ${what}, ${rounds} rounds: ${describe(faults)}`, faults.length === 0)
  }
  await race('F1', 'one refresh token 50 times at once', 200, (name) => raceRotations(store, processes, name))
  await race('F2', 'refresh racing logout', 1000, (name) => raceLogout(store, processes, name))
  await race('F3', 'one challenge 50 times at once', 100, (name) => raceUses(processes, name))
  await Promise.all(processes.map((child: StoreProcess) => child.stop()))
  await store.close()
  folder.remove()
}

/** F4: kill -9 while sessions are written, 100 rounds on one file. */
export async function killFigure(rounds = 100): Promise<void> {
  const folder = temporaryFolder()
  const file = `${folder.path}/auth.db`
  const faults: string[] = []
  let slowestOpening = 0
  let fewestWrites = Infinity
  let acknowledged = 0
  for (let round = 0; round < rounds; round += 1) {
    const { notes, writesPerSecond } = await killWhileWriting(file, 50 + 5 * round)
    const startedAt = performance.now()
    const store = sqliteStore(file)
    await store.ping()
    slowestOpening = Math.max(slowestOpening, performance.now() - startedAt)
    fewestWrites = Math.min(fewestWrites, writesPerSecond)
    acknowledged += notes.filter((note) => /^(created|rotated)/.test(note)).length
    faults.push(...(await findLosses(store, notes)))
    await store.close()
  }
  folder.remove()
  const isGood = faults.length === 0 && slowestOpening <= 5000 && fewestWrites >= 50
  const speed = `at least ${fewestWrites.toFixed(0)} writes/s, open again in at most ${slowestOpening.toFixed(0)} ms`
  reportFigure(
    'F4',
    `SQLite: kill -9, ${rounds} rounds, ${acknowledged} acknowledged, ${speed}: ${describe(faults)}`,
    isGood
  )
}

/** P9 and F12: heap that 200,000 sessions, and 200,000 strangers' quotas, take. */
export async function memoryFigures(): Promise<void> {
  const count = 200_000
  const store = memoryStore({ maxQuotas: count })
  // As the JSON of a request gives it: one flat text.
  const newDid = (): string => Buffer.from(`did:ethr:rsk:0x${randomBytes(20).toString('hex')}`).toString()
  // Drawn from the number, so that nothing but the store remembers them.
  const sessionId = (index: number): string => hashOf('session', index).slice(0, 8) + hashOf('id', index).slice(0, 16)
  const perSession = await heapFor(count, (index) =>
    store.createSession({
      ...sessionOf('', { did: newDid(), sessionId: sessionId(index) }),
      refreshTokenHash: hashOf(String(index), 0)
    })
  )
  reportFigure('P9', `memory store: ${perSession.toFixed(0)} B a session (goal 400)`, perSession <= 400)
  const perRotation = await heapFor(count, async (index) => {
    for (let token = 0; token < MAX_REPLACED_TOKENS; token += 1) {
      const rotation = rotationOf(String(index), token, token + 1, { sessionId: sessionId(index) })
      const verdict = await store.rotateRefreshToken(rotation)
      if (verdict !== 'rotate') throw new Error(verdict)
    }
  })
  reportFigure('P9', `memory store: ${perRotation.toFixed(0)} B more when it was refreshed 16 times`)
  const perQuota = await heapFor(count, (index) =>
    store.chargeQuota(chargeOf({ kind: 'anonymous', key: `${newDid()} 203.0.${index % 256}.${index % 251}` }))
  )
  const mebibytes = (perQuota * count) / 2 ** 20
  reportFigure(
    'F12',
    `memory store: ${mebibytes.toFixed(0)} MiB for 200,000 anonymous quotas (goal 50)`,
    mebibytes <= 50
  )
  await store.ping()
}

/** Callers at a time whose verbs are measured: alone, as 16 clients make them, and under load. */
const CALLERS = [1, 16, 64]

/** What a verb costs: µs of CPU in all threads, and how many there are in a second. */
export async function speedFigures(): Promise<void> {
  const folder = temporaryFolder()
  const stores: [string, () => Store][] = [
    ['SQLite', () => sqliteStore(`${folder.path}/${randomBytes(4).toString('hex')}.db`)],
    ['memory', () => memoryStore()]
  ]
  for (const [name, open] of stores) {
    for (const callers of CALLERS) {
      const store = open()
      await store.ping()
      const costs: string[] = []
      for (const [verb, call] of verbsOf(store)) {
        const { microseconds, aSecond } = await costOf(callers, call)
        costs.push(`${verb} ${microseconds.toFixed(0)} (${aSecond.toFixed(0)}/s)`)
      }
      reportFigure('', `${name}, ${callers} at a time, µs of CPU: ${costs.join(', ')}`)
      await store.close()
    }
  }
  folder.remove()
}

function verbsOf(store: Store): [verb: string, call: (index: number) => Promise<unknown>][] {
  const did = (index: number): string => `did:ethr:0x${index}`
  return [
    ['createSession', (index) => store.createSession(sessionOf(String(index), { did: did(index) }))],
    ['findSession', (index) => store.findSession(service, `session-${index}`)],
    ['rotateRefreshToken', (index) => store.rotateRefreshToken(rotationOf(String(index), 0, 1))],
    ['endSession', (index) => store.endSession(service, `session-${index}`, 'loggedOut', START_SECONDS)],
    ['countChallengeUses', (index) => store.countChallengeUses(useOf({ did: did(index) }))],
    ['consumeChallenge', (index) => store.consumeChallenge(useOf({ did: did(index) }))],
    ['chargeQuota (new)', (index) => store.chargeQuota(chargeOf({ key: did(index) }))],
    ['chargeQuota (same)', () => store.chargeQuota(chargeOf())]
  ]
}

async function costOf(
  callers: number,
  call: (index: number) => Promise<unknown>
): Promise<{ microseconds: number; aSecond: number }> {
  const count = 2_000
  const startedAt = performance.now()
  const before = process.cpuUsage()
  let next = 0
  const run = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) await call(index)
  }
  await Promise.all(Array.from({ length: callers }, run))
  const { user, system } = process.cpuUsage(before)
  return { microseconds: (user + system) / count, aSecond: (count * 1000) / (performance.now() - startedAt) }
}

async function heapFor(count: number, add: (index: number) => Promise<unknown>): Promise<number> {
  const before = heapUsed()
  for (let index = 0; index < count; index += 1) await add(index)
  return (heapUsed() - before) / count
}

function heapUsed(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  collect()
  return process.memoryUsage().heapUsed
}

function describe(faults: string[]): string {
  return faults.length === 0 ? 'no fault' : `${faults.length} faults, the first: ${faults[0]}`
}

/** All of them. */
export async function storeFigures(): Promise<void> {
  await memoryFigures()
  await speedFigures()
  await raceFigures()
  await killFigure()
}

if (process.argv[1]?.endsWith('figures-stores.ts')) await storeFigures()
