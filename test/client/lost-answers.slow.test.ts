import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { DidAuthClient, DidAuthClientError, type ClientStorage } from 'express-did-auth-client'
import {
  fakeClientTime,
  fakeLocks,
  createPlainWallet,
  setGlobals,
  createSharedStorage
} from '../support/servers/client-service.js'
import { type ServerProcess, ServerProcesses } from '../support/servers/server-process.js'
import { until } from '../support/fixtures/until.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const USERS = 5
const ROUNDS = 200
const ROUNDS_OF_A_SERVER = 25
const url = 'https://auth.example'

/** User with two tabs on one storage, whose token has expired before each round. */
class User {
  readonly clock = { seconds: 0, nowSeconds: () => this.clock.seconds }
  readonly #storage: ClientStorage = createSharedStorage()
  readonly #fetch: typeof globalThis.fetch
  readonly #number: number
  tabs: DidAuthClient[]

  constructor(number: number, fetch: typeof globalThis.fetch) {
    this.#number = number
    this.#fetch = fetch
    this.tabs = [this.#openTab(), this.#openTab()]
  }

  #openTab(): DidAuthClient {
    const wallet = createPlainWallet(createNumberedWallet(this.#number))
    return new DidAuthClient({ url, wallet, clock: this.clock, fetch: this.#fetch, storage: this.#storage })
  }

  /** Closes a tab, possibly during an operation, and opens it again. */
  reload(tab: number): void {
    this.tabs[tab] = this.#openTab()
  }
}

describe('DidAuthClient with a service that restarts and loses responses', () => {
  const servers = new ServerProcesses({
    SERVICE_URL: url,
    REFRESH_REUSE_GRACE_SECONDS: '0',
    MAX_REQUESTS_PER_TIME_SLOT: '1000000'
  })

  beforeEach(() => setGlobals({ navigator: { locks: fakeLocks() } }))
  afterEach(() => servers.killAll())

  it('is never signed out in 1,000 rounds', async () => {
    fakeClientTime(50, 500, 1_000, 2_000, 5_000)
    let server: ServerProcess = await servers.start()
    const signedOut: string[] = []
    const counts = {
      rounds: 0,
      requests: 0,
      refreshed: 0,
      lost: 0,
      unavailable: 0,
      reloads: 0,
      restarts: 0,
      why: signedOut
    }
    let isLossy = false
    const lossyFetch: typeof globalThis.fetch = async (input, init) => {
      const path = String(input instanceof Request ? input.url : input).slice(url.length)
      const response = await fetch(server.url + path, init)
      if (path !== '/refresh-token') return response
      counts.refreshed += 1
      // Loses every second response, and sometimes all three of a refresh.
      if (!isLossy || (counts.refreshed % 2 === 0 && counts.refreshed % 50 > 5)) return response
      counts.lost += 1
      throw new TypeError('fetch failed')
    }
    const users = Array.from({ length: USERS }, (_, number) => new User(number + 1, lossyFetch))
    for (const { tabs } of users) await tabs[0]!.logIn()
    // A tab that was open before receives the login.
    await until(() => users.every(({ tabs }) => tabs.every(({ session }) => session !== undefined)))
    isLossy = true

    for (let round = 1; round <= ROUNDS; round += 1) {
      const restart = round % ROUNDS_OF_A_SERVER === 0 ? restartServer(round) : undefined
      await Promise.all(users.map((user, number) => playRound(user, round + number)))
      await restart
    }
    process.stdout.write(`client: ${JSON.stringify(counts)}\n`)
    expect(counts).toMatchObject({ rounds: USERS * ROUNDS, why: [], restarts: ROUNDS / ROUNDS_OF_A_SERVER })
    expect(counts.lost).toBeGreaterThan(400)
    isLossy = false
    for (const { tabs, clock } of users) {
      clock.seconds += 700
      for (const tab of tabs) expect((await tab.fetch('/me')).status).toBe(200)
    }

    async function restartServer(round: number): Promise<void> {
      server.signal(round % 2 === 0 ? 'SIGKILL' : 'SIGTERM')
      await server.ended
      server = await servers.start()
      counts.restarts += 1
    }

    async function playRound(user: User, round: number): Promise<void> {
      counts.rounds += 1
      user.clock.seconds += 700
      const requests = user.tabs.map((tab) => visit(tab))
      if (round % 7 === 0) {
        counts.reloads += 1
        user.reload(round % 2)
      }
      await Promise.all(requests)
    }

    async function visit(tab: DidAuthClient): Promise<void> {
      counts.requests += 1
      try {
        const answer = await tab.fetch('/me')
        if (answer.status === 401) signedOut.push(`401 of /me: ${await answer.text()}`)
      } catch (error) {
        if (!(error instanceof DidAuthClientError)) throw error
        if (error.code === 'UNAVAILABLE') counts.unavailable += 1
        else if (error.code === 'SESSION_ENDED') signedOut.push(`${error.reason}: ${error.message}`)
        else throw error
      }
    }
  }, 300_000)
})
