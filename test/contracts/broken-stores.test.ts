import { describe, expect, it } from '@jest/globals'
import { AssertionError } from 'node:assert/strict'
import { memoryStore } from '../../src/stores/memory/index.js'
import { storeContract, type MakeStore } from '../../src/testing/index.js'
import { faults, makeBroken } from '../support/faults/broken-stores.js'

/** Runs all cases of the contract, or one, on a store. Returns the failures by the name of the case. */
async function findFaults(makeStore: MakeStore, only?: string): Promise<Map<string, string>> {
  const faults = new Map<string, string>()
  for (const { name, run } of storeContract(makeStore)) {
    if (only !== undefined && name !== only) continue
    try {
      await run()
    } catch (error) {
      expect(error).toBeInstanceOf(AssertionError)
      faults.set(name, (error as AssertionError).message)
    }
  }
  return faults
}

describe('the Store contract on a broken store', () => {
  it.each(faults)('a store that %s: fails the case "%s"', async (_what, fails, fault, says = `A store ${fails}`) => {
    const failures = await findFaults((bounds) => makeBroken(fault, bounds), fails)
    expect(failures.get(fails)).toContain(`${says}: `)
  })

  it('passes a store that stores no descriptions', async () => {
    const fault: Parameters<typeof makeBroken>[0] = (store) => ({
      createSession: (session) => store.createSession({ ...session, description: undefined })
    })
    expect(await findFaults((bounds) => makeBroken(fault, bounds))).toEqual(new Map())
  })

  it('fails in each case with two instances if the instances share nothing', async () => {
    const faults = await findFaults(() => ({ store: memoryStore(), another: memoryStore() }))
    const name = 'finds a new session by its id, with the hash of its refresh token'
    expect(faults.get(name)).toMatch(
      /^A store finds a new session by its id, with the hash of its refresh token: \{.*\} expected, got undefined/
    )
  })

  it('reports the error if a call rejects', async () => {
    const ping = (): Promise<void> => Promise.reject(new Error('no such table'))
    const faults = await findFaults(() => Object.assign(memoryStore(), { ping }))
    expect(faults.get('answers a ping')).toBe(
      'An available store rejects no call, and returns values of the right types: got Error: no such table'
    )
  })

  it('fails with a complete sentence in each case if the store returns the wrong types', async () => {
    const verbs = ['findSession', 'endSession', 'revokeSessions', 'listSessions', 'countChallengeUses'] as const
    const mute = Object.fromEntries(verbs.map((verb) => [verb, async () => undefined]))
    const faults = await findFaults((bounds) => makeBroken(() => mute, bounds))
    expect(faults.size).toBeGreaterThan(20)
    for (const message of faults.values()) expect(message).toMatch(/^[A-Z][^:]{20,}: /)
  })
})
