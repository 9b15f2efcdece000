import { afterEach, describe, expect, it } from '@jest/globals'
import Database from 'better-sqlite3'
import { ServerProcesses } from '../../support/servers/server-process.js'
import { plantSecrets } from '../../support/fixtures/planted-secrets.js'
import { ask, post, refresh } from '../../support/servers/server-client.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

describe('the log of a server', () => {
  const servers = new ServerProcesses()

  afterEach(() => servers.killAll())

  it('contains no secret that passes through the server, also if its store fails', async () => {
    const { privateKey } = createNumberedWallet(99)
    const CHALLENGE_SECRET = 'the secret of challenges, which no one reads'
    const server = await servers.start({
      SERVICE_URL: 'https://auth.example',
      PRIVATE_KEY: privateKey,
      CHALLENGE_SECRET,
      RPC_URL: 'http://127.0.0.1:1/key-of-a-customer',
      LOG_LEVEL: 'debug'
    })
    const secrets = await plantSecrets(server.url, 'auth.example')
    secrets.push(privateKey.slice(2), CHALLENGE_SECRET, 'key-of-a-customer')
    expect(secrets.length).toBeGreaterThan(40)

    const database = new Database(`${servers.folder}/auth/auth.db`)
    for (const row of database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()) {
      database.exec(`DROP TABLE ${(row as { name: string }).name}`)
    }
    database.close()
    const { did } = createNumberedWallet(1)
    expect((await post(`${server.url}/request-auth`, { did })).status).toBe(503)
    secrets.push([18, 32].map((bytes) => Buffer.alloc(bytes, 7).toString('base64url')).join('.'))
    expect((await refresh(server.url, secrets.at(-1)!)).status).toBe(503)
    expect((await ask(`${server.url}/ready`)).status).toBe(503)
    expect((await ask(`${server.url}/health`)).status).toBe(200)

    server.signal('SIGTERM')
    const { code, stdout, stderr } = await server.ended
    expect([code, stderr]).toEqual([0, ''])
    const lines = stdout.trim().split('\n')
    expect(lines.length).toBeGreaterThan(50)
    expect(lines.filter((line) => !/^\{.*\}$/.test(line))).toEqual([])
    expect(secrets.filter((secret) => stdout.includes(secret))).toEqual([])
    expect(stdout).toContain('no such table')
    expect(stdout).not.toContain(did)
  })
})
