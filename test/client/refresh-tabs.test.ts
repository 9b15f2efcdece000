import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { type DidAuthClient } from 'express-did-auth/client'
import { fakeClientTime, fakeLocks, setGlobals } from '../support/client-time.js'
import { sharedStorage, startClientService, type ClientService, openTabs } from '../support/client-service.js'
import { until } from '../support/until.js'

let service: ClientService
let undo: () => void

beforeEach(async () => {
  undo = setGlobals({ navigator: { locks: fakeLocks() } })
  service = await startClientService()
})

afterEach(async () => {
  undo()
  jest.restoreAllMocks()
  await service.close()
})

const never = (): Promise<Response> => new Promise(() => undefined)
const refreshes = (): number => service.paths().filter((path) => path === '/refresh-token').length
const answerOf = async (auth: DidAuthClient): Promise<number> => (await auth.fetch('/me')).status

describe('a refresh by ten tabs at once', () => {
  it.each([
    ['navigator.locks', () => sharedStorage()],
    [
      'a lease in the storage',
      () => {
        undo()
        undo = setGlobals({ navigator: {} })
        return sharedStorage()
      }
    ],
    ["the storage's own lock", () => ({ ...sharedStorage(), lock: fakeLocks().request })]
  ])('is one request, with %s, and signs no tab out', async (_name, makeStorage) => {
    fakeClientTime(50)
    const tabs = await openTabs(service, 10, makeStorage())
    service.clock.seconds += 700
    const statuses = await Promise.all(tabs.map(answerOf))
    expect(statuses).toEqual(Array(10).fill(200))
    expect(refreshes()).toBe(1)
    expect(new Set(tabs.map(({ session }) => session?.expiresAt)).size).toBe(1)
  })

  it('goes on after 10 s while one is frozen in the lock, and none is signed out when that wakes up', async () => {
    const time = fakeClientTime()
    const [frozen, ...others] = await openTabs(service, 10)
    let thaw = (): void => undefined
    service.interceptAnswer(
      (_, response) =>
        new Promise(
          (resolve) =>
            void (thaw = () => {
              resolve(response)
            })
        )
    )
    service.clock.seconds += 700
    const late = answerOf(frozen!)
    await until(() => service.exchanges.at(-1)?.status === 200 && refreshes() === 1)
    service.interceptAnswer((_, response) => response)
    const answers = others.map(answerOf)
    await new Promise((resolve) => setImmediate(resolve))
    time.endTimeouts(10_000)
    expect(await Promise.all(answers)).toEqual(Array(9).fill(200))
    service.clock.seconds += 60
    thaw()
    expect(await late).toBe(200)
    service.clock.seconds += 700
    expect(await Promise.all([frozen!, ...others].map(answerOf))).toEqual(Array(10).fill(200))
  })
})

describe('a tab that is frozen before it sends its refresh', () => {
  it('takes the tokens that another has got meanwhile, and presents none of before', async () => {
    const time = fakeClientTime()
    const storage = sharedStorage()
    const [other] = await openTabs(service, 1, storage)
    let thaw = (): void => undefined
    const frozen = new Promise<void>((resolve) => (thaw = resolve))
    let isFrozen = false
    const set = async (key: string, value: string): Promise<void> => {
      await storage.set(key, value)
      isFrozen = true
      await frozen
    }
    const late = service.client({ storage: { ...storage, set } })
    await late.ready
    service.clock.seconds += 700
    const lateAnswer = answerOf(late)
    await until(() => isFrozen)
    const answer = answerOf(other!)
    await new Promise((resolve) => setImmediate(resolve))
    time.endTimeouts(10_000)
    expect(await answer).toBe(200)
    // Beyond the grace, a token of before would revoke the session.
    service.clock.seconds += 60
    thaw()
    expect(await lateAnswer).toBe(200)
    expect(refreshes()).toBe(1)
  })
})

describe('a refresh whose answer is lost', () => {
  it('is sent again at once with the same key', async () => {
    fakeClientTime(500)
    const auth = service.client()
    await auth.logIn()
    service.clock.seconds += 700
    let lost = 0
    service.interceptAnswer(({ path }, response) => {
      if (path !== '/refresh-token' || lost > 0) return response
      lost += 1
      throw new TypeError('fetch failed')
    })
    expect(await answerOf(auth)).toBe(200)
    const keys = service.exchanges.filter(({ path }) => path === '/refresh-token').map((one) => one.headers)
    expect(keys).toHaveLength(2)
    expect(keys[0]!.get('idempotency-key')).toMatch(/^[0-9a-f]{32}$/)
    expect(keys[1]!.get('idempotency-key')).toBe(keys[0]!.get('idempotency-key'))
  })

  it('is finished by the next page, long after the grace, when the page was closed before the answer', async () => {
    const storage = sharedStorage()
    const [auth] = await openTabs(service, 1, storage)
    service.clock.seconds += 700
    service.interceptAnswer(never)
    void answerOf(auth!)
    await until(() => service.exchanges.at(-1)?.status === 200 && refreshes() === 1)
    undo()
    undo = setGlobals({ navigator: { locks: fakeLocks() } })
    service.interceptAnswer((_, response) => response)
    service.clock.seconds += 3_600
    const reloaded = service.client({ storage })
    await reloaded.ready
    expect(await answerOf(reloaded)).toBe(200)
  })
})
