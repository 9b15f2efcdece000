/**
 * What verbs cost in Redis, beside a raw INCR by the same client in the same run: calls a second, CPU of this process and
 * of Redis, and the memory that a session takes there. It needs `redis-server` or `valkey-server` on the PATH.
 *
 * Alone: `npm run figures -- redis`
 */
import { createClient } from 'redis'
import { redisQuotas } from '../../src/stores/redis/index.js'
import { chargeOf, did, rotationOf, sessionOf, useOf } from '../../src/testing/store-case.js'
import { startRedis, type TestRedis } from '../support/redis-server.js'
import { suiteStore } from '../support/redis-stores.js'
import { median } from './median.js'
import { printFigure } from './report-figure.js'

const CALLS = 3_000
const ROUNDS = 3

interface Cost {
  aSecond: number
  nodeMicroseconds: number
  redisMicroseconds: number
}

async function redisMicroseconds(redis: TestRedis): Promise<number> {
  const info = String(await redis.command('INFO', 'cpu'))
  const seconds = ['used_cpu_sys', 'used_cpu_user'].map((name) => new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1])
  return seconds.reduce((sum, one) => sum + Number(one), 0) * 1e6
}

async function costOf(redis: TestRedis, callers: number, call: (index: number) => Promise<unknown>): Promise<Cost> {
  const redisBefore = await redisMicroseconds(redis)
  const [cpuBefore, startedAt] = [process.cpuUsage(), performance.now()]
  let next = 0
  const run = async (): Promise<void> => {
    for (let index = next++; index < CALLS; index = next++) await call(index)
  }
  await Promise.all(Array.from({ length: callers }, run))
  const seconds = (performance.now() - startedAt) / 1000
  const { user, system } = process.cpuUsage(cpuBefore)
  const redisCpu = (await redisMicroseconds(redis)) - redisBefore
  return { aSecond: CALLS / seconds, nodeMicroseconds: (user + system) / CALLS, redisMicroseconds: redisCpu / CALLS }
}

/** Charges beside raw INCR: rounds of both in turn, so that what else the machine does meets both. */
async function chargeFigures(redis: TestRedis): Promise<void> {
  const client = await createClient({ url: redis.url, RESP: 2 }).connect()
  const quotas = redisQuotas(redis.url)
  for (const callers of [1, 16, 64]) {
    const [raw, charges]: [Cost[], Cost[]] = [[], []]
    for (let round = 0; round < ROUNDS; round += 1) {
      raw.push(await costOf(redis, callers, (index) => client.sendCommand(['INCR', `raw:${index % 1000}`])))
      charges.push(await costOf(redis, callers, (index) => quotas.chargeQuota(chargeOf({ key: String(index % 1000) }))))
    }
    const ratio = median(charges.map(({ aSecond }, index) => aSecond / raw[index]!.aSecond))
    printFigure(
      `chargeQuota, ${callers} at a time: ${ratio.toFixed(2)} × raw INCR; ${line(charges)}; INCR ${line(raw)}`
    )
  }
  client.destroy()
  await quotas.close()
}

async function verbFigures(redis: TestRedis): Promise<void> {
  const store = suiteStore(redis.url, { keyPrefix: 'verb ' })
  const user = (index: number): string => `did:ethr:rsk:0x${String(index).padStart(40, '0')}`
  for (const name of ['rotated', 'again']) await store.createSession(sessionOf(name))
  const verbs: [name: string, call: (index: number) => Promise<unknown>][] = [
    ['rotateRefreshToken', (index) => store.rotateRefreshToken(rotationOf('rotated', index, index + 1))],
    ['findSession', () => store.findSession('https://service.example', 'session-again')],
    ['consumeChallenge', (index) => store.consumeChallenge(useOf({ did: user(index) }))]
  ]
  for (const [name, call] of verbs) printFigure(`${name}, 1 at a time: ${line([await costOf(redis, 1, call)])}`)
  await store.close()
}

/** Bytes of a key with one session, new and refreshed 16 times. */
async function memoryFigures(redis: TestRedis): Promise<void> {
  const store = suiteStore(redis.url, { keyPrefix: 'one ' })
  await store.createSession(sessionOf('a', { did }))
  const [key] = (await redis.command('KEYS', 'one *')) as string[]
  const bytes = async (): Promise<string> => String(await redis.command('MEMORY', 'USAGE', key!))
  const fresh = await bytes()
  for (let token = 0; token < 16; token += 1) await store.rotateRefreshToken(rotationOf('a', token, token + 1))
  printFigure(`a user with one session: ${fresh} B new, ${await bytes()} B after 16 refreshes`)
  await store.close()
}

function line(costs: Cost[]): string {
  const of = (field: keyof Cost): string =>
    median(costs.map((cost) => cost[field])).toFixed(field === 'aSecond' ? 0 : 1)
  return `${of('aSecond')}/s, CPU ${of('nodeMicroseconds')} µs Node + ${of('redisMicroseconds')} µs Redis`
}

const redis = await startRedis()
await chargeFigures(redis)
await verbFigures(redis)
await memoryFigures(redis)
await redis.stop()
