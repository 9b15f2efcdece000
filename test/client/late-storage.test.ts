import { afterEach, beforeEach, expect, it, jest } from '@jest/globals'
import type { ClientStorage } from 'express-did-auth/client'
import { startClientService, type ClientService } from '../support/client-service.js'
import { fakeClientTime, fakeLocks, setGlobals } from '../support/client-time.js'

const TABS = 10
const ROUNDS = 10

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

/**
 * `localStorage` as tabs in processes of their own see it, which no lock changes: what another tab wrote is seen later, in
 * the order of the writes.
 *
 * @param reads - of a tab until it sees what another wrote
 */
function lateStorages(count: number, reads: number): ClientStorage[] {
  let writes = 0
  const tabs = Array.from({ length: count }, () => ({
    values: new Map<string, { value: string | undefined; number: number }>(),
    unseen: [] as { key: string; value: string | undefined; number: number; readsLeft: number }[]
  }))
  return tabs.map((own) => {
    const write = (key: string, value: string | undefined): void => {
      writes += 1
      own.values.set(key, { value, number: writes })
      for (const tab of tabs) if (tab !== own) tab.unseen.push({ key, value, number: writes, readsLeft: reads })
    }
    return {
      get(key) {
        for (const one of own.unseen) one.readsLeft -= 1
        while (own.unseen[0] !== undefined && own.unseen[0].readsLeft < 0) {
          const { key: seen, value, number } = own.unseen.shift()!
          if (number > (own.values.get(seen)?.number ?? 0)) own.values.set(seen, { value, number })
        }
        return own.values.get(key)?.value
      },
      set: write,
      delete(key) {
        write(key, undefined)
      }
    }
  })
}

it.each([1, 3, 6])('ten tabs stay signed in where each sees the writes of another %d reads later', async (reads) => {
  fakeClientTime(200)
  const storages = lateStorages(TABS, reads)
  const first = service.client({ storage: storages[0]! })
  await first.logIn()
  const others = storages.slice(1).map((storage) => {
    for (let read = 0; read <= reads; read += 1) void storage.get('')
    return service.client({ storage })
  })
  await Promise.all(others.map(({ ready }) => ready))
  const statuses: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    service.clock.seconds += 700
    const answers = await Promise.all([first, ...others].map((tab) => tab.fetch('/me')))
    statuses.push(...answers.map(({ status }) => status))
  }
  expect(statuses).toEqual(Array(TABS * ROUNDS).fill(200))
})
