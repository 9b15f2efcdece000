import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import type { Store } from 'express-did-auth'
import { temporaryFolder } from '../support/store-folder.js'
import { forkStore, killWhileWriting, type StoreProcess } from '../support/store-processes.js'
import { findLosses, raceLogout, raceRotations, raceUses } from '../support/store-races.js'

describe('two processes on one SQLite file', () => {
  const folder = temporaryFolder()
  const file = `${folder.path}/auth.db`
  let processes: StoreProcess[]
  let store: Store

  beforeAll(async () => {
    // Both open the new file at once: one creates the tables, the other finds them.
    processes = await Promise.all([forkStore(file), forkStore(file)])
    store = sqliteStore(file)
  })

  afterAll(async () => {
    await store.close()
    await Promise.all(processes.map((process) => process.stop()))
    folder.remove()
  })

  it('let exactly one of 50 simultaneous uses of a refresh token win', async () => {
    for (let round = 0; round < 10; round += 1) {
      expect(await raceRotations(store, processes, `rotation ${round}`)).toEqual([])
    }
  })

  it('refresh nothing after a logout was answered', async () => {
    for (let round = 0; round < 50; round += 1) {
      expect(await raceLogout(store, processes, `logout ${round}`)).toEqual([])
    }
  })

  it('let exactly one of 50 simultaneous logins use a challenge', async () => {
    for (let round = 0; round < 10; round += 1) {
      expect(await raceUses(processes, `did:example:${round}`)).toEqual([])
    }
  })

  it('lose no acknowledged write, and leave none half done, when one is killed', async () => {
    for (let round = 0; round < 3; round += 1) {
      const { notes, writesPerSecond } = await killWhileWriting(file, 100 + 50 * round)
      expect(writesPerSecond).toBeGreaterThan(0)
      const reopened = sqliteStore(file)
      expect(await findLosses(reopened, notes)).toEqual([])
      await reopened.close()
    }
  })
})
