import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import {
  formatCounts,
  findDomain,
  Instances,
  waitForWrites,
  runUnderLoad,
  type Targets
} from '../../support/servers/instances.js'
import { startPostgres, type PostgresEngine } from '../../support/engines/postgres-server.js'
import { ask, logIn, me } from '../../support/servers/server-client.js'
import { note, rounds } from '../../support/fixtures/time-factor.js'
import type { ServerProcess } from '../../support/servers/server-process.js'
import { steadily, until } from '../../support/fixtures/until.js'
import { tcpProxy } from '../../support/faults/tcp-proxy.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const KILLS = rounds(6, 100)
const CRASHES = rounds(2, 20)
/** A longer pause of the machine may cause a timeout and a 503: the attempt is then repeated. */
const STANDSTILL_MILLISECONDS = 2_000

let engine: PostgresEngine
let instances: Instances

beforeEach(async () => {
  engine = await startPostgres()
  instances = new Instances({ DATABASE_URL: engine.url() })
})

afterEach(async () => {
  await instances.killAll()
  const log = engine.log()
  await engine.remove()
  expect(log).not.toContain('deadlock detected')
})

async function startTargets(auths: number, vaults: number): Promise<{ targets: Targets; servers: ServerProcess[] }> {
  const [auth, vault] = await Promise.all([instances.startMany(auths, 'auth'), instances.startMany(vaults, 'vault')])
  const getUrls = (servers: readonly ServerProcess[]): string[] => servers.map(({ url }) => url)
  return { targets: { auths: getUrls(auth), vaults: getUrls(vault) }, servers: [...auth, ...vault] }
}

describe('instances that are killed under load', () => {
  it('lose nothing that was acknowledged, and do not affect other instances', async () => {
    const { targets, servers } = await startTargets(3, 2)
    await steadily(STANDSTILL_MILLISECONDS, () =>
      runUnderLoad(targets, false, async (load) => {
        const startedAt = performance.now()
        for (let kill = 0; kill < KILLS; kill += 1) {
          await waitForWrites(load)
          const index = Math.floor(Math.random() * servers.length)
          const { server, url, signal, ended } = servers[index]!
          signal('SIGKILL')
          await ended
          // Clients notice the failure themselves. A new instance takes its place.
          const next = await instances.start(server as 'auth' | 'vault')
          servers[index] = next
          for (const urls of [targets.auths, targets.vaults])
            urls.splice(0, urls.length, ...urls.map((other) => (other === url ? next.url : other)))
        }
        const rate = Math.round(load.acknowledged() / ((performance.now() - startedAt) / 1_000))
        note(
          'N2',
          `${KILLS} kills at ${rate} writes/s, answers ${formatCounts(load)}, p99 ${load.p99()} ms: nothing lost`
        )
      })
    )
  })
})

describe('instances whose database crashes under load', () =>
  it('answer 503 with Retry-After, report it at /ready, and recover with the database', async () => {
    const { targets, servers } = await startTargets(2, 2)
    await runUnderLoad(targets, true, async (load) => {
      const waits: number[] = []
      for (let crash = 0; crash < CRASHES; crash += 1) {
        await waitForWrites(load)
        await engine.stop('immediate')
        const refused = load.counts.get('503') ?? 0
        await until(() => (load.counts.get('503') ?? 0) > refused + 10)
        for (const { url } of servers) {
          await until(async () => (await ask(`${url}/ready`)).status === 503)
          const { dependencies, reasons } = JSON.parse((await ask(`${url}/ready`)).text) as Record<string, object>
          expect(dependencies).toMatchObject({ database: 'unavailable' })
          expect(Object.keys(reasons!)).toEqual(['database'])
        }
        await engine.start()
        const startedAt = performance.now()
        await waitForWrites(load, 1)
        waits.push(Math.round(performance.now() - startedAt))
        for (const { url } of servers) await until(async () => (await ask(`${url}/ready`)).status === 200)
      }
      await waitForWrites(load)
      note(
        'N3',
        `${CRASHES} crashes of the database, answers ${formatCounts(load)}, back after ${waits.join(', ')} ms: nothing lost`
      )
    })
  }))

describe('an instance that cannot reach the database', () => {
  it('answers 503 with Retry-After while the others serve, and recovers', async () => {
    const proxy = await tcpProxy(engine.port)
    const isolated = await instances.start('auth', {
      DATABASE_URL: `postgres://postgres@127.0.0.1:${proxy.port}/postgres`
    })
    const { targets } = await startTargets(2, 1)
    const { accessToken } = await logIn(isolated.url, createNumberedWallet(1), findDomain('auth'))
    await steadily(STANDSTILL_MILLISECONDS, () =>
      runUnderLoad(targets, false, async (load) => {
        proxy.blackHole(true)
        const startedAt = performance.now()
        const { status, headers } = await me(isolated.url, accessToken)
        const refusedAfter = Math.round(performance.now() - startedAt)
        expect([status, headers.has('retry-after')]).toEqual([503, true])
        await until(async () => (await ask(`${isolated.url}/ready`)).status === 503)
        await waitForWrites(load)
        proxy.blackHole(false)
        const healingAt = performance.now()
        await until(async () => (await me(isolated.url, accessToken)).status === 200)
        const healedAfter = Math.round(performance.now() - healingAt)
        await until(async () => (await ask(`${isolated.url}/ready`)).status === 200)
        note(
          'N5',
          `a black hole: 503 after ${refusedAfter} ms, well again after ${healedAfter} ms; the others ${formatCounts(load)}, p99 ${load.p99()} ms`
        )
      })
    )
    await proxy.close()
  })
})
