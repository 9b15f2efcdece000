import { afterEach, describe, expect, it } from '@jest/globals'
import { setTimeout as pause } from 'node:timers/promises'
import { deadRpcUrl } from '../../support/faults/rpc-node.js'
import { note, rounds } from '../../support/fixtures/time-factor.js'
import { ServerProcesses } from '../../support/servers/server-process.js'
import { waitForWrites, runUnderLoad } from '../../support/servers/instances.js'
import {
  ask,
  askUntilReady,
  logIn,
  logOut,
  me,
  post,
  refresh,
  signedLogin,
  type Tokens
} from '../../support/servers/server-client.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'
import { until } from '../../support/fixtures/until.js'

const wallet = createNumberedWallet(1)
const domain = 'auth.example'

/** Module that makes hard links fail, as on exFAT. */
const WITHOUT_LINKS = `data:text/javascript,${encodeURIComponent(`
  import fs from 'node:fs'
  import { syncBuiltinESMExports } from 'node:module'
  const fail = () => { throw Object.assign(new Error('no links'), { code: 'EPERM' }) }
  fs.linkSync = fail
  syncBuiltinESMExports()
`)}`

describe('the auth server as a process', () => {
  const servers = new ServerProcesses({ SERVICE_URL: `https://${domain}` })

  afterEach(() => servers.killAll())

  it('logs in a wallet, refreshes its tokens and logs it out', async () => {
    const { url, serviceDid } = await servers.start({ SERVICE_URL: '' })
    const { accessToken, refreshToken } = await logIn(url, wallet, new URL(url).host.replace('127.0.0.1', 'localhost'))
    expect(await me(url, accessToken)).toMatchObject({ status: 200, text: JSON.stringify({ did: wallet.did }) })
    const [, payload = ''] = accessToken.split('.')
    expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toMatchObject({ iss: serviceDid, sub: wallet.did })
    const { status, text } = await refresh(url, refreshToken)
    expect(status).toBe(200)
    const next = JSON.parse(text) as Tokens
    expect((await logOut(url, next.accessToken)).status).toBe(200)
    expect((await refresh(url, next.refreshToken)).status).toBe(401)
  })

  it('keeps sessions, used challenges and its identity after a restart', async () => {
    const first = await servers.start()
    const login = await signedLogin(first.url, wallet, domain)
    const { status, text } = await post(`${first.url}/auth`, login)
    expect(status).toBe(200)
    const { accessToken, refreshToken } = JSON.parse(text) as Tokens
    first.signal('SIGTERM')
    const { code, stdout } = await first.ended
    expect(code).toBe(0)
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { event: string }).event)
    expect(events).toEqual(['ready', 'page', 'request', 'request', 'stopping', 'stopped'])

    const second = await servers.start()
    expect(second.serviceDid).toBe(first.serviceDid)
    expect((await me(second.url, accessToken)).status).toBe(200)
    expect((await post(`${second.url}/auth`, login)).status).toBe(401)
    expect((await refresh(second.url, refreshToken)).status).toBe(200)
  })

  it('answers 503 at /ready for DRAIN_SECONDS before it stops, and still serves other requests', async () => {
    const { url, signal, output, ended } = await servers.start({ DRAIN_SECONDS: '2' })
    await askUntilReady(url)
    signal('SIGTERM')
    await until(() => output().includes('"event":"stopping"'))
    const { status, text } = await ask(`${url}/ready`)
    expect([status, JSON.parse(text)]).toMatchObject([503, { status: 'draining' }])
    expect((await ask(`${url}/health`)).status).toBe(200)
    expect((await ended).code).toBe(0)
  })

  it('accepts a refresh token only at the service that issued it, also on a shared database', async () => {
    const [issuing, other] = await Promise.all([
      servers.start(),
      servers.start({ SERVICE_URL: 'https://other.example' })
    ])
    const { refreshToken, accessToken } = await logIn(issuing.url, wallet, domain)
    expect((await refresh(other.url, refreshToken)).status).toBe(401)
    expect((await me(other.url, accessToken)).status).toBe(401)
    expect((await refresh(issuing.url, refreshToken)).status).toBe(200)
  })

  it.each([
    ['', []],
    [' without hard links', [WITHOUT_LINKS]]
  ])('acts as one service when two processes start at once on an empty folder%s', async (_disk, hooks) => {
    const [first, second] = await Promise.all([servers.start({}, hooks), servers.start({}, hooks)])
    expect(first.serviceDid).toBe(second.serviceDid)
    const { accessToken, refreshToken } = await logIn(first.url, wallet, domain)
    expect((await me(second.url, accessToken)).status).toBe(200)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => refresh(index % 2 === 0 ? first.url : second.url, refreshToken))
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(19).fill(401)])
  })

  it('loses nothing that it acknowledged when it is killed under load (F4)', async () => {
    let server = await servers.start({ LOG_LEVEL: 'warn' })
    let slowestStart = 0
    for (let round = 0; round < rounds(1, 100); round += 1) {
      const targets = { auths: [server.url], vaults: [] }
      await runUnderLoad(targets, false, async (load) => {
        await waitForWrites(load, 50)
        server.signal('SIGKILL')
        await server.ended
        server = await servers.start({ LOG_LEVEL: 'warn' })
        targets.auths = [server.url]
      })
      slowestStart = Math.max(slowestStart, server.startMilliseconds)
    }
    note('F4', `auth server: ready again in at most ${slowestStart.toFixed(0)} ms`)
  })

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'stops on %s under load with exit code 0 and loses nothing (F14)',
    async (signal) => {
      let server = await servers.start({ LOG_LEVEL: 'warn' })
      let slowestEnd = 0
      for (let round = 0; round < rounds(1, 100); round += 1) {
        const targets = { auths: [server.url], vaults: [] }
        await runUnderLoad(targets, false, async (load) => {
          await waitForWrites(load, 50)
          const startedAt = performance.now()
          server.signal(signal)
          // Ctrl-C sends two signals as well: one from the terminal and one from npm.
          await pause(2)
          server.signal(signal)
          expect(await server.ended).toMatchObject({ code: 0, stderr: '' })
          slowestEnd = Math.max(slowestEnd, performance.now() - startedAt)
          server = await servers.start({ LOG_LEVEL: 'warn' })
          targets.auths = [server.url]
        })
      }
      note('F14', `auth server: ended in at most ${slowestEnd.toFixed(0)} ms`)
    }
  )

  it('starts and serves without its RPC node, and reports it at /ready', async () => {
    const { url } = await servers.start({ RPC_URL: await deadRpcUrl() })
    expect(JSON.parse((await askUntilReady(url)).text)).toEqual({
      status: 'ready',
      dependencies: { store: 'ok', clock: 'ok', signer: 'ok', rpc: 'unavailable' }
    })
    const { accessToken } = await logIn(url, wallet, domain)
    expect((await me(url, accessToken)).status).toBe(200)
  })
})
