/**
 * Costs of verbs in Redis, compared with a raw INCR of the same client in the same run. Measures calls per second, CPU
 * time of this process and of Redis, and memory of a session. Needs `redis-server` or `valkey-server` on the PATH.
 *
 * Run only this file with `npm run figures -- redis`.
 */
import { createClient } from 'redis'
import { redisQuotas } from '../../src/stores/redis/index.js'
import { createCharge, did, createRotation, createSession, createUse } from '../../src/testing/store-case.js'
import { startRedis, suiteStore, type TestRedis } from '../support/engines/redis-server.js'
import { measureCalls, measure, printFigure } from './harness.js'

const CALLS = 3_000

async function readRedisMicroseconds(redis: TestRedis): Promise<number> {
  const info = String(await redis.command('INFO', 'cpu'))
  const seconds = ['used_cpu_sys', 'used_cpu_user'].map((name) => new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1])
  return seconds.reduce((sum, value) => sum + Number(value), 0) * 1e6
}

/** Returns a line with calls per second, and CPU time per call in this process and in Redis. */
async function describeCosts(
  redis: TestRedis,
  callers: number,
  call: (index: number) => Promise<unknown>
): Promise<string> {
  const before = await readRedisMicroseconds(redis)
  const { microseconds, aSecond } = await measureCalls(callers, CALLS, call)
  const inRedis = ((await readRedisMicroseconds(redis)) - before) / CALLS
  return `${aSecond.toFixed(0)}/s, CPU ${microseconds.toFixed(1)} µs Node + ${inRedis.toFixed(1)} µs Redis`
}

/** Prints charges compared with raw INCR. */
async function printChargeFigures(redis: TestRedis): Promise<void> {
  const client = await createClient({ url: redis.url, RESP: 2 }).connect()
  const quotas = redisQuotas(redis.url)
  const charge = (index: number): Promise<unknown> => quotas.chargeQuota(createCharge({ key: String(index % 1000) }))
  const increment = (index: number): Promise<unknown> => client.sendCommand(['INCR', `raw:${index % 1000}`])
  for (const callers of [1, 16, 64]) {
    const rate = (call: (index: number) => Promise<unknown>) => async (): Promise<number> =>
      (await measureCalls(callers, CALLS, call)).aSecond
    const works = { chargeQuota: rate(charge), INCR: rate(increment) }
    await measure(`chargeQuota over raw INCR, ${callers} at a time`, { goal: 'none', unit: '/s', rounds: 3 }, works)
    printFigure(`chargeQuota, ${callers} at a time: ${await describeCosts(redis, callers, charge)}`)
  }
  client.destroy()
  await quotas.close()
}

async function printVerbFigures(redis: TestRedis): Promise<void> {
  const store = suiteStore(redis.url, { keyPrefix: 'verb ' })
  const user = (index: number): string => `did:ethr:rsk:0x${String(index).padStart(40, '0')}`
  for (const name of ['rotated', 'again']) await store.createSession(createSession(name))
  const verbs: [name: string, call: (index: number) => Promise<unknown>][] = [
    ['rotateRefreshToken', (index) => store.rotateRefreshToken(createRotation('rotated', index, index + 1))],
    ['findSession', () => store.findSession('https://service.example', 'session-again')],
    ['consumeChallenge', (index) => store.consumeChallenge(createUse({ did: user(index) }))]
  ]
  for (const [name, call] of verbs) printFigure(`${name}, 1 at a time: ${await describeCosts(redis, 1, call)}`)
  await store.close()
}

/** Prints the size of a key with one session, both new and after 16 refreshes. */
async function printMemoryFigures(redis: TestRedis): Promise<void> {
  const store = suiteStore(redis.url, { keyPrefix: 'one ' })
  await store.createSession(createSession('a', { did }))
  const [key] = (await redis.command('KEYS', 'one *')) as string[]
  const bytes = async (): Promise<string> => String(await redis.command('MEMORY', 'USAGE', key!))
  const fresh = await bytes()
  for (let token = 0; token < 16; token += 1) await store.rotateRefreshToken(createRotation('a', token, token + 1))
  printFigure(`a user with one session: ${fresh} B new, ${await bytes()} B after 16 refreshes`)
  await store.close()
}

const redis = await startRedis()
await printChargeFigures(redis)
await printVerbFigures(redis)
await printMemoryFigures(redis)
await redis.stop()
