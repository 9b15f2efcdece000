/** What a verb of the SQLite and the memory store costs: µs of CPU in all threads, and how many there are in a second. */
import { memoryStore } from '../../src/stores/memory/index.js'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import type { Store } from '../../src/ports.js'
import { chargeOf, rotationOf, service, sessionOf, START_SECONDS, useOf } from '../../src/testing/store-case.js'
import { temporaryFolder } from '../support/store-folder.js'
import { costOfCalls, printFigure } from './harness.js'

const did = (index: number): string => `did:ethr:0x${index}`
const verbsOf = (store: Store): Record<string, (index: number) => Promise<unknown>> => ({
  createSession: (index) => store.createSession(sessionOf(String(index), { did: did(index) })),
  findSession: (index) => store.findSession(service, `session-${index}`),
  rotateRefreshToken: (index) => store.rotateRefreshToken(rotationOf(String(index), 0, 1)),
  endSession: (index) => store.endSession(service, `session-${index}`, 'loggedOut', START_SECONDS),
  countChallengeUses: (index) => store.countChallengeUses(useOf({ did: did(index) })),
  consumeChallenge: (index) => store.consumeChallenge(useOf({ did: did(index) })),
  'chargeQuota (new)': (index) => store.chargeQuota(chargeOf({ key: did(index) })),
  'chargeQuota (same)': () => store.chargeQuota(chargeOf())
})

const folder = temporaryFolder()
// Alone, as 16 clients make them, and under load.
for (const callers of [1, 16, 64]) {
  for (const [name, store] of Object.entries({
    SQLite: sqliteStore(`${folder.path}/${callers}.db`),
    memory: memoryStore()
  })) {
    await store.ping()
    const costs: string[] = []
    for (const [verb, call] of Object.entries(verbsOf(store))) {
      const { microseconds, aSecond } = await costOfCalls(callers, 2_000, call)
      costs.push(`${verb} ${microseconds.toFixed(0)} (${aSecond.toFixed(0)}/s)`)
    }
    printFigure(`${name}, ${callers} at a time, µs of CPU: ${costs.join(', ')}`)
    await store.close()
  }
}
folder.remove()
