import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { readDocument } from '../../support/fixtures/documents.js'
import {
  formatCounts,
  countDeadlocks,
  findConfigurationFaults,
  Instances,
  waitForWrites,
  startBalancer,
  runUnderLoad,
  type Balancer
} from '../../support/servers/instances.js'
import { root } from '../../support/engines/packed-package.js'
import { testDatabase, type TestDatabase } from '../../support/engines/postgres-server.js'
import { freePort } from '../../support/faults/tcp-proxy.js'
import { note, rounds } from '../../support/fixtures/time-factor.js'
import type { ServerProcess } from '../../support/servers/server-process.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { steadily, until } from '../../support/fixtures/until.js'

const RESTARTS = rounds(1, 10)
/** HAProxy needs two failed checks, one per second. After a longer pause, an instance may stop before it notices. */
const STANDSTILL_MILLISECONDS = 1_000
const config = join(root, 'servers/docker/haproxy.cfg')

describe('haproxy.cfg', () => {
  let database: TestDatabase
  let instances: Instances
  let balancer: Balancer | undefined

  beforeEach(async () => {
    database = await testDatabase()
    instances = new Instances({ DATABASE_URL: database.url, DRAIN_SECONDS: '5' })
  })

  afterEach(async () => {
    await balancer?.stop()
    await instances.killAll()
    expect(await countDeadlocks(database.url)).toBe(0)
    await database.drop()
  })

  it('is valid, as is the configuration of DEPLOY.md for other machines', () => {
    expect(findConfigurationFaults(config)).toBe('')
    const block = readDocument('servers/DEPLOY.md').blocks.find(({ language }) => language === 'haproxy')!
    const { path: folder, remove } = temporaryFolder()
    const file = join(folder, 'haproxy.cfg')
    // The test has no certificates.
    writeFileSync(file, block.code.replace(/ ssl crt \S+ alpn \S+$/m, ''))
    expect(findConfigurationFaults(file)).toBe('')
    remove()
  })

  it('limits an address to a quarter of all connections', async () => {
    const { path: folder, remove } = temporaryFolder()
    const file = join(folder, 'own.cfg')
    writeFileSync(file, readFileSync(config, 'utf8').replaceAll('gt 2048', 'gt 2'))
    const port = await freePort()
    await instances.start('auth', { PORT: String(port) })
    balancer = await startBalancer(file, [port])
    const { hostname, port: ownPort } = new URL(balancer.url)
    const sockets = [1, 2, 3].map(() =>
      connect(Number(ownPort), hostname)
        .on('error', () => undefined)
        .resume()
    )
    await until(() => sockets.some(({ destroyed }) => destroyed))
    expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(1)
    for (const socket of sockets) socket.destroy()
    remove()
  })

  it('allows a rolling restart of the instances without a failed request', async () => {
    const ports = [await freePort(), await freePort()]
    const startOn = (port: number): Promise<ServerProcess> => instances.start('auth', { PORT: String(port) })
    const servers = await Promise.all(ports.map(startOn))
    const { url, isUp } = (balancer = await startBalancer(config, ports))
    await steadily(STANDSTILL_MILLISECONDS, async () => {
      for (const port of ports) await until(() => isUp(port))
      await runUnderLoad({ auths: [url], vaults: [] }, false, async (load) => {
        for (let restart = 0; restart < RESTARTS; restart += 1) {
          for (const [index, port] of ports.entries()) {
            await waitForWrites(load)
            servers[index]!.signal('SIGTERM')
            const { code } = await servers[index]!.ended
            servers[index] = await startOn(port)
            expect(code).toBe(0)
            await until(() => isUp(port))
          }
        }
        await waitForWrites(load)
        expect(load.counts.get('none')).toBeUndefined()
        note(
          'N9',
          `${RESTARTS} rolling restarts of two behind HAProxy, answers ${formatCounts(load)}, p99 ${load.p99()} ms`
        )
      })
    })
  })
})
