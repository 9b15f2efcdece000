import { afterEach, describe, expect, it } from '@jest/globals'
import Database from 'better-sqlite3'
import { mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Dictionary, findVaultLosses, startVaultLoad, type LoadUser } from '../../support/models/vault-load.js'
import { note, rounds, scaled } from '../../support/fixtures/time-factor.js'
import { runCli, ServerProcesses } from '../../support/servers/server-process.js'
import { startFaultyNode } from '../../support/faults/faulty-ipfs-node.js'
import { deadRpcUrl } from '../../support/faults/rpc-node.js'
import { ask, askUntilReady, logIn, post, refresh, signedLogin } from '../../support/servers/server-client.js'
import { until } from '../../support/fixtures/until.js'
import { endLeases } from '../../support/servers/vault-with-node.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const domain = 'vault.example'

describe('the vault as a process', () => {
  const servers = new ServerProcesses({ SERVICE_URL: `https://${domain}` })

  afterEach(() => servers.killAll())

  const start = (variables: Record<string, string> = {}) => servers.start(variables, [], 'vault')

  it('keeps entries and sessions after a restart', async () => {
    const first = await start()
    const tokens = await logIn(first.url, wallet, domain)
    const bearer = { Authorization: `DIDAuth ${tokens.accessToken}` }
    expect((await post(`${first.url}/notes`, { content: 'kept' }, bearer)).status).toBe(201)
    first.signal('SIGTERM')
    const { code, stdout, stderr } = await first.ended
    expect([code, stderr]).toEqual([0, ''])
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { event: string }).event)
    expect(events).toEqual(['ready', 'request', 'request', 'request', 'stopping', 'stopped'])

    const second = await start()
    expect(await ask(`${second.url}/${wallet.did}/notes`)).toMatchObject({ status: 200, text: '["kept"]' })
    expect((await post(`${second.url}/notes`, { content: 'more' }, bearer)).status).toBe(201)
    expect((await refresh(second.url, tokens.refreshToken)).status).toBe(200)
    expect(await ask(`${second.url}/${wallet.did}/notes`)).toMatchObject({ text: '["kept","more"]' })
  })

  it('keeps its data in files that only their owner can read', async () => {
    await start()
    const modes = ['', 'vault.db', 'auth.db'].map((file) => statSync(join(servers.folder, 'vault', file)).mode & 0o777)
    expect(modes).toEqual([0o700, 0o600, 0o600])
  })

  it('accepts no token and no signature of the auth server with the same identity', async () => {
    const vault = await start()
    const auth = await servers.start({ SERVICE_URL: 'https://auth.example' }, [], 'auth')
    expect(auth.serviceDid).toBe(vault.serviceDid)
    const { accessToken } = await logIn(auth.url, wallet, 'auth.example')
    const refused = await post(`${vault.url}/notes`, { content: 'a' }, { Authorization: `DIDAuth ${accessToken}` })
    expect([refused.status, refused.text]).toEqual([401, 'Invalid access token'])
    // Both servers expect the same domain, so that only the challenge differs.
    const sameDomain = await servers.start({ DATA_DIR: servers.folder }, [], 'auth')
    const { did, sig } = await signedLogin(sameDomain.url, wallet, domain)
    expect((await post(`${vault.url}/auth`, { did, sig })).status).toBe(401)
    expect((await post(`${sameDomain.url}/auth`, { did, sig })).status).toBe(200)
  })

  it('starts and works without its IPFS node, and reports it at /ready', async () => {
    const { url, output } = await start({ IPFS_API_URL: await deadRpcUrl() })
    expect(JSON.parse((await askUntilReady(url)).text)).toEqual({
      status: 'ready',
      dependencies: { store: 'ok', clock: 'ok', signer: 'ok', ipfs: 'unavailable' }
    })
    const { accessToken } = await logIn(url, wallet, domain)
    const answer = await post(`${url}/notes`, { content: 'a' }, { Authorization: `DIDAuth ${accessToken}` })
    expect([answer.status, answer.headers.get('pin-status')]).toEqual([201, 'pending'])
    expect(await ask(`${url}/${wallet.did}/notes`)).toMatchObject({ status: 200, text: '["a"]' })
    const warning =
      output()
        .split('\n')
        .find((line) => line.includes('ipfs-unavailable')) ?? '{}'
    expect(JSON.parse(warning)).toMatchObject({ level: 'warn', reason: 'ERR_IPFS_UNAVAILABLE', code: 'ECONNREFUSED' })
  })

  it('pins content written during an outage of its node after a kill and a start, without a new write', async () => {
    const node = await startFaultyNode()
    try {
      await node.fail('refuses')
      const first = await start({ IPFS_API_URL: node.url })
      const { accessToken } = await logIn(first.url, wallet, domain)
      const bearer = { Authorization: `DIDAuth ${accessToken}` }
      const answer = await post(`${first.url}/notes`, { content: 'a' }, bearer)
      expect([answer.status, answer.headers.get('pin-status')]).toEqual([201, 'pending'])
      first.signal('SIGKILL')
      await first.ended
      await node.heal()
      expect(node.pins.size).toBe(0)
      // The killed process may hold the lease of the pin.
      endLeases(join(servers.folder, 'vault', 'vault.db'))
      await start({ IPFS_API_URL: node.url })
      await until(() => node.pins.size > 0)
      expect([...node.pins]).toEqual([(JSON.parse(answer.text) as { id: string }).id])
    } finally {
      await node.stop()
    }
  })

  it('stops at once while it waits for its node', async () => {
    const node = await startFaultyNode()
    try {
      await node.fail('is silent')
      const server = await start({ IPFS_API_URL: node.url })
      const { accessToken } = await logIn(server.url, wallet, domain)
      const answer = await post(`${server.url}/notes`, { content: 'a' }, { Authorization: `DIDAuth ${accessToken}` })
      expect(answer.status).toBe(201)
      await until(() => node.underWay() === 1)
      const startedAt = performance.now()
      server.signal('SIGTERM')
      const { code, stderr } = await server.ended
      expect([code, stderr]).toEqual([0, ''])
      expect(performance.now() - startedAt).toBeLessThan(scaled(1_500))
    } finally {
      await node.stop()
    }
  })

  it('reports in one sentence that its database belongs to another program', async () => {
    mkdirSync(join(servers.folder, 'vault'))
    const file = join(servers.folder, 'vault', 'vault.db')
    new Database(file).exec('CREATE TABLE entries (name TEXT)').close()
    const { code, stdout, stderr } = await runCli(['vault'], { DATA_DIR: servers.folder, PORT: '0' })
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toBe(`Cannot use ${file} (DATA_DIR): its tables are not those of this server\n`)
  })

  /** Ends the server by a signal while users write, and expects no losses after a restart. */
  async function expectNoLossesAfter(end: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const variables = {
      LOG_LEVEL: 'warn',
      MAX_REQUESTS_PER_TIME_SLOT: '1000000',
      ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400'
    }
    let server = await start(variables)
    const users: LoadUser[] = []
    for (let number = 0; number < 6; number += 1) {
      const { did } = createNumberedWallet(30_000 + number)
      const { accessToken } = await logIn(server.url, createNumberedWallet(30_000 + number), domain)
      users.push({ did, accessToken, model: new Dictionary(), uncertain: undefined })
    }
    for (let round = 0; round < rounds(1, 100); round += 1) {
      const load = startVaultLoad(server.url, users)
      while (load.acknowledged() < 150) await pause(5)
      const startedAt = performance.now()
      server.signal(end)
      const { code, stderr } = await server.ended
      if (end === 'SIGTERM') expect([code, stderr]).toEqual([0, ''])
      expect(performance.now() - startedAt).toBeLessThan(10_000)
      await load.stop()
      expect(load.wrongAnswers).toEqual([])

      server = await start(variables)
      expect(server.startMilliseconds).toBeLessThan(scaled(5_000))
      note('F4', `vault: ready again in ${server.startMilliseconds.toFixed(0)} ms`)
      expect(await findVaultLosses(server.url, users)).toEqual([])
    }
    for (const { did, accessToken, model } of users) {
      const headers = { Authorization: `DIDAuth ${accessToken}` }
      const backup = JSON.parse((await ask(`${server.url}/backup`, { headers })).text) as {
        entries: { content: string }[]
      }
      const storage = JSON.parse((await ask(`${server.url}/storage`, { headers })).text) as Record<string, number>
      expect(backup.entries).toHaveLength(['a', 'b', 'c'].flatMap((key) => model.find(did, key)).length)
      expect(storage).toMatchObject({
        usedEntries: backup.entries.length,
        used: backup.entries.reduce((sum, { content }) => sum + content.length, 0)
      })
    }
  }

  it('loses no acknowledged write and keeps no partial write when killed, and is ready within 5 s', () =>
    expectNoLossesAfter('SIGKILL'))

  it('stops on SIGTERM during writes with exit code 0, and loses nothing', () => expectNoLossesAfter('SIGTERM'))
})
