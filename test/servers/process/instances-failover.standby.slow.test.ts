import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import {
  formatCounts,
  findDomain,
  Instances,
  waitForWrites,
  startInstanceLoad,
  runUnderLoad,
  type Targets
} from '../../support/servers/instances.js'
import type { PostgresEngine } from '../../support/engines/postgres-server.js'
import { promote, startPrimary, startStandby, waitForStandby } from '../../support/engines/postgres-standby.js'
import { ask, post, signedLogin } from '../../support/servers/server-client.js'
import { note, rounds } from '../../support/fixtures/time-factor.js'
import { tcpProxy, type TcpProxy } from '../../support/faults/tcp-proxy.js'
import { until } from '../../support/fixtures/until.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const FAILOVERS = rounds(2, 20)

describe('instances whose database fails over under load', () => {
  let primary: PostgresEngine
  /** Address of the current primary, which moves at a failover. */
  let address: TcpProxy
  let instances: Instances
  let targets: Targets
  const engines: PostgresEngine[] = []
  let number = 70_000
  const createNextWallet = () => createNumberedWallet((number += 1))

  const trackEngine = async (starting: Promise<PostgresEngine>): Promise<PostgresEngine> => {
    const engine = await starting
    engines.push(engine)
    return engine
  }

  beforeEach(async () => {
    primary = await trackEngine(startPrimary())
    address = await tcpProxy(primary.port)
    instances = new Instances({ DATABASE_URL: `postgres://postgres@127.0.0.1:${address.port}/postgres` })
    const [auths, vaults] = await Promise.all([instances.startMany(2, 'auth'), instances.startMany(2, 'vault')])
    targets = { auths: auths.map(({ url }) => url), vaults: vaults.map(({ url }) => url) }
  })

  afterEach(async () => {
    await instances.killAll()
    await address.close()
    const logs = engines.map((engine) => engine.log())
    await Promise.all(engines.splice(0).map((engine) => engine.remove()))
    for (const log of logs) expect(log).not.toContain('deadlock detected')
  })

  it('lose nothing that was acknowledged with a synchronous standby', async () => {
    await runUnderLoad(targets, true, async (load) => {
      for (let failover = 0; failover < FAILOVERS; failover += 1) {
        const standby = await trackEngine(startStandby(primary))
        await waitForStandby(primary, true)
        await waitForWrites(load)
        await primary.stop('immediate')
        await promote(standby)
        address.moveTo(standby.port)
        // Writes must not wait for a standby until the next one exists.
        await waitForStandby(standby, false)
        primary = standby
      }
      await waitForWrites(load)
      note('N4', `${FAILOVERS} failovers to a synchronous standby, answers ${formatCounts(load)}: nothing lost`)
    })
  })

  it('are not ready while the synchronous standby is unavailable, because no write completes', async () => {
    const standby = await trackEngine(startStandby(primary))
    await waitForStandby(primary, true)
    const [auth] = targets.auths as [string, ...string[]]
    const readStatuses = async (): Promise<number[]> => {
      const refused = await post(`${auth}/auth`, await signedLogin(auth, createNextWallet(), findDomain('auth')))
      return [refused.status, (await ask(`${auth}/ready`)).status]
    }
    expect(await readStatuses()).toEqual([200, 200])
    await standby.stop('immediate')
    expect(await readStatuses()).toEqual([503, 503])
    await standby.start()
    await until(async () => (await ask(`${auth}/ready`)).status === 200)
    expect(await readStatuses()).toEqual([200, 200])
  })

  it('lose writes that an asynchronous standby had not received, as INSTANCES.md says', async () => {
    const replication = await tcpProxy(primary.port)
    const standby = await trackEngine(startStandby(primary, replication.port))
    const load = await startInstanceLoad(targets, false)
    try {
      await waitForWrites(load)
      replication.blackHole(true)
      await waitForWrites(load)
    } finally {
      await load.stop()
    }
    await primary.stop('immediate')
    await promote(standby)
    address.moveTo(standby.port)
    for (const url of [...targets.auths, ...targets.vaults]) {
      await until(async () => (await ask(`${url}/ready`)).status === 200)
    }
    const losses = await load.findLosses()
    await replication.close()
    expect(losses).not.toEqual([])
    note('N4', `a failover to an asynchronous standby: ${losses.length} sessions and lists not as acknowledged`)
  })
})
