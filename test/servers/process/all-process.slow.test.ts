import { afterEach, describe, expect, it } from '@jest/globals'
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { until } from '../../support/fixtures/until.js'
import { ServerProcesses, spawnCli, type ServerProcess } from '../../support/servers/server-process.js'
import { root } from '../../support/engines/packed-package.js'
import { testDatabase } from '../../support/engines/postgres-server.js'
import { nameOptions, nodeOptions, scriptFile } from '../../support/servers/run-script.js'
import { ask, askUntilReady, logIn, me, post } from '../../support/servers/server-client.js'
import { freePort } from '../../support/faults/tcp-proxy.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)

/** Returns the domain that a server expects in the login message. */
const getDomain = (url: string): string => url.replace('http://127.0.0.1', 'localhost')

describe('the three servers in one process', () => {
  const servers = new ServerProcesses()
  const startAll = (env: Record<string, string> = {}): Promise<ServerProcess> => servers.start(env, [], 'all')

  afterEach(() => servers.killAll())

  it('are one service at three URLs, each alive, ready and with its own folder', async () => {
    const allServers = await startAll()
    expect(allServers.servers.map(({ server }) => server)).toEqual(['auth', 'relay', 'vault'])
    expect(new Set(allServers.servers.map(({ url }) => url)).size).toBe(3)
    expect(new Set(allServers.servers.map(({ serviceDid }) => serviceDid)).size).toBe(1)
    for (const { url, server, serviceUrl } of allServers.servers) {
      expect(serviceUrl).toBe(url.replace('127.0.0.1', 'localhost'))
      expect(await ask(`${url}/health`)).toMatchObject({ status: 200, text: '{"status":"ok"}' })
      const { text } = await askUntilReady(url)
      const ipfs = server !== 'auth' && { ipfs: 'none' }
      const dependencies = { store: 'ok', clock: 'ok', signer: 'ok', ...ipfs }
      expect(JSON.parse(text)).toEqual({ status: 'ready', dependencies })
    }
    const secrets = ['challenge-secret', 'private-key', 'resource-key']
    expect(readdirSync(servers.folder).sort()).toEqual([...secrets, 'auth', 'relay', 'vault'].sort())
    for (const name of ['auth', 'relay', 'vault']) {
      expect(readdirSync(join(servers.folder, name))).toContain('auth.db')
    }
  })

  it('accept no token and no signature of each other', async () => {
    const { servers: readyServers } = await startAll()
    const [auth, , vault] = readyServers as [
      (typeof readyServers)[0],
      (typeof readyServers)[0],
      (typeof readyServers)[0]
    ]
    const { accessToken, refreshToken } = await logIn(auth.url, wallet, getDomain(auth.url))
    expect((await me(auth.url, accessToken)).status).toBe(200)
    const headers = { Authorization: `DIDAuth ${accessToken}` }
    expect((await ask(`${vault.url}/keys`, { headers })).status).toBe(401)
    expect((await post(`${vault.url}/refresh-token`, { refreshToken })).status).toBe(401)
    const vaultTokens = await logIn(vault.url, wallet, getDomain(vault.url))
    expect(
      (await ask(`${vault.url}/keys`, { headers: { Authorization: `DIDAuth ${vaultTokens.accessToken}` } })).status
    ).toBe(200)
    expect((await me(auth.url, vaultTokens.accessToken)).status).toBe(401)
  })

  it('share the keys of auth, although its public name does not resolve on this machine', async () => {
    const { servers: readyServers } = await startAll({ AUTH_SERVICE_URL: 'https://auth.invalid' })
    const [auth, , vault] = readyServers as [
      (typeof readyServers)[0],
      (typeof readyServers)[0],
      (typeof readyServers)[0]
    ]
    const { accessToken } = await logIn(auth.url, wallet, 'auth.invalid')
    const headers = { Authorization: `DIDAuth ${accessToken}` }
    const issued = await post(`${auth.url}/resource-token`, { resource: vault.serviceUrl }, headers)
    const token = (JSON.parse(issued.text) as { accessToken: string }).accessToken
    const bearer = { Authorization: `Bearer ${token}` }
    expect(await post(`${vault.url}/notes`, { content: 'a note' }, bearer)).toMatchObject({ status: 201 })
  })

  it('stop on SIGTERM with exit code 0', async () => {
    const allServers = await startAll()
    allServers.signal('SIGTERM')
    const exit = await allServers.ended
    expect(exit).toMatchObject({ code: 0, stderr: '' })
    const stopped = [...exit.stdout.matchAll(/"server":"(\w+)","event":"stopped"/g)].map(([, server]) => server)
    expect(stopped.sort()).toEqual(['auth', 'relay', 'vault'])
    for (const { url } of allServers.servers) await expect(ask(`${url}/health`)).rejects.toThrow('fetch failed')
  })

  // Cause: with a database, /ready was 200 while other routes were 503, and a load balancer sent requests that failed.
  it.each(['SQLite', 'PostgreSQL'])('answer /ready with 200 only once they serve requests, on %s', async (engine) => {
    const database = engine === 'SQLite' ? undefined : await testDatabase()
    const names = ['auth', 'relay', 'vault'] as const
    const env: Record<string, string> = {
      PRIVATE_KEY: '7'.repeat(64),
      CHALLENGE_SECRET: 'a secret of 32 bytes or more, yes'
    }
    if (database !== undefined) env.DATABASE_URL = database.url
    for (const name of names) {
      const port = await freePort()
      env[`${name.toUpperCase()}_PORT`] = String(port)
      env[`${name.toUpperCase()}_SERVICE_URL`] = `http://127.0.0.1:${port}`
    }
    const starting = servers.start(env, [], 'all')
    const faults: string[] = []
    const waitUntilReady = async (name: (typeof names)[number]): Promise<void> => {
      const url = env[`${name.toUpperCase()}_SERVICE_URL`]!
      for (let status = 0; status !== 200;) {
        status = await ask(`${url}/ready`).then(
          (answer) => answer.status,
          () => 0
        )
        if (status === 200 && (await ask(`${url}/openapi.json`)).status !== 200) faults.push(name)
      }
    }
    await Promise.all([...names.map(waitUntilReady), starting])
    expect(faults).toEqual([])
    await servers.killAll()
    await database?.drop()
  })

  // Cause: the stop closed the database while the start continued. It logged "ready" after "stopped" and exited with 1.
  it.each([1, 2, 3])('stop with exit code 0 on a SIGTERM during startup, before server %d listens', async (count) => {
    const hook = `data:text/javascript,import net from 'node:net'
const { listen } = net.Server.prototype
let count = 0
net.Server.prototype.listen = function (...where) {
  count += 1
  if (count === ${count}) process.kill(process.pid, 'SIGTERM')
  return listen.apply(this, where)
}`
    const ports = { AUTH_PORT: '0', RELAY_PORT: '0', VAULT_PORT: '0', DATA_DIR: servers.folder }
    for (const env of [{}, { DRAIN_SECONDS: '1' }]) {
      const { code, stdout, stderr } = await spawnCli(['all'], { ...ports, ...env }, [encodeURI(hook)]).ended
      expect([code, stderr]).toEqual([0, ''])
      expect(stdout).toContain('"event":"stopping"')
      expect(stdout).not.toContain('"event":"ready"')
    }
  })

  it('stop when the shell of npm ends, and continue without npm when their shell ends', async () => {
    const ports = { AUTH_PORT: '0', RELAY_PORT: '0', VAULT_PORT: '0', DATA_DIR: servers.folder }
    const command = [process.execPath, ...nodeOptions, ...nameOptions(), scriptFile('servers/cli.ts'), 'all']
    const line = command.map((word) => `"${word}"`).join(' ')
    /** Starts the servers as children of a shell, and ends only the shell. */
    const orphan = async (env: Record<string, string>): Promise<{ output: () => string; kill: () => void }> => {
      const options = { cwd: root, env: { PATH: process.env.PATH, ...ports, ...env }, detached: true }
      const shell = spawn('sh', ['-c', `${line}; true`], options)
      const kill = (): void => void process.kill(-shell.pid!, 'SIGKILL')
      let output = ''
      shell.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
      await until(() => output.split('"event":"ready"').length >= 4)
      shell.kill('SIGTERM')
      return { output: () => output, kill }
    }
    const [npmRun, detachedRun] = await Promise.all([orphan({ npm_lifecycle_event: 'start' }), orphan({})])
    await until(() => npmRun.output().includes('"event":"stopped"'))
    await pause(300)
    expect(detachedRun.output()).not.toContain('"event":"stopping"')
    detachedRun.kill()
  })
})
