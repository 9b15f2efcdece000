/** P9 and F12: heap of 200,000 sessions, anonymous quotas, and DIDs that request challenges over HTTP. */
import { randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { MAX_REPLACED_TOKENS } from '../../src/protocol/session.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { createCharge, hashToken, createRotation, createSession } from '../../src/testing/store-case.js'
import { testApp } from '../support/servers/test-app.js'
import { runInParallel, reportFigure } from './harness.js'
import { assertStatus, ConnectionPool } from './http-client.js'

const COUNT = 200_000

function readHeapUsed(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  collect()
  return process.memoryUsage().heapUsed
}

async function measureHeap(add: (index: number) => Promise<unknown>, callers = 1): Promise<number> {
  const before = readHeapUsed()
  await runInParallel(callers, COUNT, add)
  return (readHeapUsed() - before) / COUNT
}

const store = memoryStore({ maxQuotas: COUNT })
// Returns a flat string, like one from the parsed JSON of a request.
const createDid = (): string => Buffer.from(`did:ethr:rsk:0x${randomBytes(20).toString('hex')}`).toString()
// Computed from the number, so that only the store holds the ids.
const sessionId = (index: number): string =>
  hashToken('session', index).slice(0, 8) + hashToken('id', index).slice(0, 16)
const perSession = await measureHeap((index) => {
  const session = createSession('', { did: createDid(), sessionId: sessionId(index) })
  return store.createSession({ ...session, refreshTokenHash: hashToken(String(index), 0) })
})
reportFigure('P9', `memory store: ${perSession.toFixed(0)} B a session (goal 400)`, perSession <= 400)
const perRotation = await measureHeap(async (index) => {
  for (let token = 0; token < MAX_REPLACED_TOKENS; token += 1) {
    const rotation = createRotation(String(index), token, token + 1, { sessionId: sessionId(index) })
    const verdict = await store.rotateRefreshToken(rotation)
    if (verdict !== 'rotate') throw new Error(verdict)
  }
})
reportFigure('P9', `memory store: ${perRotation.toFixed(0)} B more when it was refreshed 16 times`)

const mebibytes = (bytesEach: number): number => (bytesEach * COUNT) / 2 ** 20
const report = (what: string, bytesEach: number): void => {
  const all = mebibytes(bytesEach)
  reportFigure('F12', `${what}: ${all.toFixed(1)} MiB more (goal 50)`, all <= 50)
}
const perQuota = await measureHeap((index) =>
  store.chargeQuota(createCharge({ kind: 'anonymous', key: `${createDid()} 203.0.${index % 256}.${index % 251}` }))
)
report(`memory store: ${COUNT} anonymous quotas`, perQuota)
await store.ping()

const { app } = await testApp({})
const server = app.listen(0, '127.0.0.1')
const pool = new ConnectionPool((server.address() as AddressInfo).port)
const ask = (did: string): Promise<unknown> =>
  pool.use(async (connection) => assertStatus(await connection.get(`/request-auth/${did}`)))
await runInParallel(16, 2_000, () => ask(createDid()))
report(`${COUNT} DIDs asking for challenges`, await measureHeap(() => ask(createDid()), 16))
pool.close()
server.close()
