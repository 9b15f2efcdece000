import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { countDeadlocks, findDomain, createTurns, Instances } from '../../support/servers/instances.js'
import { testDatabase, type TestDatabase } from '../../support/engines/postgres-server.js'
import { relayGet, relayLogIn, relayPost } from '../../support/servers/relay-client.js'
import {
  ask,
  logIn,
  logOut,
  me,
  post,
  refresh,
  signedLogin,
  type Answer,
  type Tokens
} from '../../support/servers/server-client.js'
import { note, rounds } from '../../support/fixtures/time-factor.js'
import type { ServerProcess } from '../../support/servers/server-process.js'
import { steadily } from '../../support/fixtures/until.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const ROUNDS = { refresh: rounds(8, 200), logOut: rounds(40, 1_000), login: rounds(8, 100), write: rounds(20, 100) }

/** A longer pause of the machine may cause a timeout and a 503: the round is then repeated. */
const STANDSTILL_MILLISECONDS = 1_500

const domain = findDomain('auth')

let database: TestDatabase
let instances: Instances
let auths: string[] = []
let vaults: string[] = []
let relays: string[] = []
let number = 50_000

const createNextWallet = () => createNumberedWallet((number += 1))
const getUrls = (servers: readonly ServerProcess[]): string[] => servers.map(({ url }) => url)
const createBearer = (token: string) => ({ Authorization: `DIDAuth ${token}` })
const sortStatuses = (answers: readonly Answer[]): number[] => answers.map(({ status }) => status).sort()
const createOneSuccess = (count: number, others: number): number[] => [200, ...Array<number>(count - 1).fill(others)]

/** Sends `count` concurrent requests to the servers in turn. */
function spread<T>(count: number, servers: readonly string[], send: (url: string, index: number) => Promise<T>) {
  return Promise.all(Array.from({ length: count }, (_, index) => send(servers[index % servers.length]!, index)))
}

async function repeat(count: number, attempt: (round: number) => Promise<void>): Promise<void> {
  for (let round = 0; round < count; round += 1) await steadily(STANDSTILL_MILLISECONDS, () => attempt(round))
}

beforeAll(async () => {
  database = await testDatabase()
  instances = new Instances({ DATABASE_URL: database.url })
  const [auth, vault, relay] = await Promise.all([
    instances.startMany(4, 'auth'),
    instances.startMany(3, 'vault'),
    instances.startMany(2, 'relay')
  ])
  auths = getUrls(auth)
  vaults = getUrls(vault)
  relays = getUrls(relay)
})

afterAll(async () => {
  await instances.killAll()
  await database.drop()
})

describe('four auth servers on one database', () => {
  it('accept one of 50 concurrent uses of a refresh token, and keep the session of that one', async () => {
    const getNextUrl = createTurns(auths)
    await repeat(ROUNDS.refresh, async () => {
      const { refreshToken } = await logIn(getNextUrl(), createNextWallet(), domain)
      const answers = await spread(50, auths, (url) => refresh(url, refreshToken))
      expect(sortStatuses(answers)).toEqual(createOneSuccess(50, 401))
      const winner = JSON.parse(answers.find(({ status }) => status === 200)!.text) as Tokens
      expect((await me(getNextUrl(), winner.accessToken)).status).toBe(200)
      expect((await refresh(getNextUrl(), winner.refreshToken)).status).toBe(200)
    })
    note('N1', `${ROUNDS.refresh} refresh tokens, each used 50 times at once: one winner each`)
  })

  it('refresh no token of a session after its logout was answered', async () => {
    const getNextUrl = createTurns(auths)
    let winners = 0
    await repeat(ROUNDS.logOut, async () => {
      const { accessToken, refreshToken } = await logIn(getNextUrl(), createNextWallet(), domain)
      const [refreshed, loggedOut] = await Promise.all([
        refresh(getNextUrl(), refreshToken),
        logOut(getNextUrl(), accessToken)
      ])
      expect(loggedOut.status).toBe(200)
      expect([200, 401]).toContain(refreshed.status)
      const tokens = [refreshToken]
      if (refreshed.status === 200) {
        winners += 1
        tokens.push((JSON.parse(refreshed.text) as Tokens).refreshToken)
      }
      const lateRefreshes = await Promise.all(tokens.flatMap((token) => auths.map((url) => refresh(url, token))))
      expect(new Set(sortStatuses(lateRefreshes))).toEqual(new Set([401]))
    })
    note('N1', `${ROUNDS.logOut} refreshes racing a log out, ${winners} were first: no token is good after it`)
  })

  it('open one session for a signature that is sent 50 times', async () => {
    const getNextUrl = createTurns(auths)
    await repeat(ROUNDS.login, async () => {
      const login = await signedLogin(getNextUrl(), createNextWallet(), domain)
      const answers = await spread(50, auths, (url) => post(`${url}/auth`, login))
      expect(sortStatuses(answers)).toEqual(createOneSuccess(50, 401))
      const { accessToken } = JSON.parse(answers.find(({ status }) => status === 200)!.text) as Tokens
      for (const url of auths) {
        const { text } = await ask(`${url}/sessions`, { headers: createBearer(accessToken) })
        expect(JSON.parse(text)).toHaveLength(1)
      }
    })
    note('N1', `${ROUNDS.login} signatures, each sent 50 times at once: one session each`)
  })
})

describe('three vaults on one database', () => {
  it('read what other instances wrote as soon as the write is answered', async () => {
    const wallet = createNextWallet()
    const { accessToken } = await logIn(vaults[0]!, wallet, findDomain('vault'))
    const expected: string[] = []
    await repeat(ROUNDS.write, async (round) => {
      // The larger contents are stored as objects, not in rows.
      const content = `${round} `.repeat(round % 5 === 0 ? 60_000 : 20)
      const written = await post(`${vaults[round % 3]}/notes`, { content }, createBearer(accessToken))
      expect(written.status).toBe(201)
      if (!expected.includes(content)) expected.push(content)
      const read = await Promise.all(vaults.map((url) => ask(`${url}/${wallet.did}/notes`)))
      expect(read.map(({ status, text }) => [status, text === JSON.stringify(expected)])).toEqual(
        Array(3).fill([200, true])
      )
    })
  })

  it('accept one of three conditional writes with the same ETag', async () => {
    const wallet = createNextWallet()
    const { accessToken } = await logIn(vaults[0]!, wallet, findDomain('vault'))
    const list = `/${wallet.did}/shared`
    const winners = [0, 0, 0]
    await repeat(ROUNDS.write, async () => {
      const etag = (await ask(vaults[0]! + list)).headers.get('etag')!
      const answers = await spread(3, vaults, (url, index) =>
        ask(`${url}/shared`, {
          method: 'PUT',
          headers: { ...createBearer(accessToken), 'Content-Type': 'application/json', 'If-Match': etag },
          body: JSON.stringify({ content: `of vault ${index}, after ${etag}` })
        })
      )
      expect(sortStatuses(answers)).toEqual([200, 412, 412])
      const winner = answers.findIndex(({ status }) => status === 200)
      winners[winner]! += 1
      const read = await Promise.all(vaults.map((url) => ask(url + list)))
      expect(new Set(read.map(({ text }) => text))).toEqual(
        new Set([JSON.stringify([`of vault ${winner}, after ${etag}`])])
      )
    })
    note('N1', `${ROUNDS.write} conditional writes at three vaults: one winner each, by vault ${winners.join(', ')}`)
  })
})

describe('two relays on one database', () =>
  it('serve files and accept tokens of each other', async () => {
    await repeat(1, async () => {
      const token = await relayLogIn(relays[0]!, createNextWallet())
      for (const file of ['small', 'large '.repeat(50_000)]) {
        const cid = await relayPost(relays[0]!, token, file)
        const { status, text } = await relayGet(relays[1]!, token, cid)
        expect([status, JSON.parse(text)]).toEqual([200, { file }])
      }
    })
  }))

describe('the shared database', () =>
  it('reports no deadlock', async () => {
    expect(await countDeadlocks(database.url)).toBe(0)
  }))
