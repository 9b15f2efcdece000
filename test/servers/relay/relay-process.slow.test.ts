import { afterEach, describe, expect, it } from '@jest/globals'
import { setTimeout as pause } from 'node:timers/promises'
import { ServerProcesses, type ServerProcess } from '../../support/servers/server-process.js'
import { note, rounds, scaled } from '../../support/fixtures/time-factor.js'
import { relayCredential, relayGet, relayLogIn, relayPost } from '../../support/servers/relay-client.js'
import { post } from '../../support/servers/server-client.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)

describe('the relay as a process', () => {
  const servers = new ServerProcesses({ LOG_LEVEL: 'warn' })
  const start = (env: Record<string, string> = {}): Promise<ServerProcess> => servers.start(env, [], 'relay')

  afterEach(() => servers.killAll())

  it('stops with exit code 0, and keeps its files, used challenges and tokens after a restart', async () => {
    const first = await start()
    const jwt = await relayCredential(first.url, wallet)
    const { text } = await post(`${first.url}/auth`, { jwt })
    const { token } = JSON.parse(text) as { token: string }
    const cid = await relayPost(first.url, token, 'hello world')
    first.signal('SIGTERM')
    expect(await first.ended).toMatchObject({ code: 0, stderr: '' })

    const second = await start()
    expect(second.serviceDid).toBe(first.serviceDid)
    expect(await relayGet(second.url, token, cid)).toMatchObject({ status: 200, text: '{"file":"hello world"}' })
    expect(await post(`${second.url}/auth`, { jwt })).toMatchObject({ status: 401 })
    expect((await relayLogIn(second.url, wallet)).length).toBeGreaterThan(100)
  })

  it('loses no acknowledged file or use when killed under load, and is ready again within 5 s (F4)', async () => {
    for (let round = 0; round < rounds(1, 100); round += 1) await killUnderLoad(round)
  })

  async function killUnderLoad(round: number): Promise<void> {
    const server = await start({ MAX_REQUESTS_PER_TIME_SLOT: '1000000' })
    const tokens = await Promise.all(
      Array.from({ length: 8 }, (_, index) => relayLogIn(server.url, createNumberedWallet(8 * round + index + 1)))
    )
    const storedFiles: { cid: string; file: string }[] = []
    const usedCredentials: string[] = []
    const unexpectedErrors: unknown[] = []
    const load = tokens.map(async (token, client) => {
      for (let index = 0; ; index += 1) {
        try {
          const file = `${client} ${index} `.repeat(1 + index * 50)
          storedFiles.push({ file, cid: await relayPost(server.url, token, file) })
          const jwt = await relayCredential(server.url, createNumberedWallet(8 * round + client + 1))
          if ((await post(`${server.url}/auth`, { jwt })).status === 200) usedCredentials.push(jwt)
        } catch (error) {
          // Broken connections cause a TypeError of fetch, which is expected.
          if (error instanceof Error && /^(?:post|challenge|login): /.test(error.message))
            unexpectedErrors.push(error.message)
          return
        }
      }
    })
    while (usedCredentials.length < 50) await pause(5)
    server.signal('SIGKILL')
    await Promise.all(load)
    expect(unexpectedErrors).toEqual([])

    const restarted = await start()
    expect(restarted.startMilliseconds).toBeLessThan(scaled(5_000))
    note('F4', `relay: ready again in ${restarted.startMilliseconds.toFixed(0)} ms`)
    const token = await relayLogIn(restarted.url, wallet)
    for (const { cid, file } of storedFiles)
      expect((await relayGet(restarted.url, token, cid)).text).toBe(JSON.stringify({ file }))
    for (const jwt of usedCredentials) expect((await post(`${restarted.url}/auth`, { jwt })).status).toBe(401)
    restarted.signal('SIGKILL')
    await restarted.ended
  }

  it('issues one token for one credential, also if two processes share a folder (F3)', async () => {
    const env = { SERVICE_URL: 'https://relay.example', MAX_REQUESTS_PER_TIME_SLOT: '1000000' }
    const [firstRelay, secondRelay] = await Promise.all([start(env), start(env)])
    for (let round = 1; round <= rounds(1, 100); round += 1) {
      const jwt = await relayCredential(firstRelay.url, createNumberedWallet(round))
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          post(`${(index % 2 === 0 ? firstRelay : secondRelay).url}/auth`, { jwt })
        )
      )
      expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(49).fill(401)])
    }
  })
})
