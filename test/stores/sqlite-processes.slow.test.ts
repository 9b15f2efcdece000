import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import type { Store } from 'express-did-auth'
import { createRotation, service, createSession, START_SECONDS, createUse } from '../../src/testing/store-case.js'
import { rounds } from '../support/fixtures/time-factor.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { forkStore, killWhileWriting, type Call, type StoreProcess } from '../support/servers/store-processes.js'

describe('two processes on one SQLite file', () => {
  const folder = temporaryFolder()
  const file = `${folder.path}/auth.db`
  let processes: StoreProcess[]
  let store: Store

  beforeAll(async () => {
    // Both processes open the new file at the same time. One creates the tables, and the other finds them.
    processes = await Promise.all([forkStore(file), forkStore(file)])
    store = sqliteStore(file)
  })

  afterAll(async () => {
    await store.close()
    await Promise.all(processes.map((process) => process.stop()))
    folder.remove()
  })

  it('let exactly one of 50 concurrent uses of a refresh token win', async () => {
    for (let round = 0; round < rounds(10, 200); round += 1) {
      expect(await raceRotations(store, processes, `rotation ${round}`)).toEqual([])
    }
  })

  it('refresh nothing after the response to a logout', async () => {
    for (let round = 0; round < rounds(50, 1_000); round += 1) {
      expect(await raceLogout(store, processes, `logout ${round}`)).toEqual([])
    }
  })

  it('let exactly one of 50 concurrent logins use a challenge', async () => {
    for (let round = 0; round < rounds(10, 200); round += 1) {
      expect(await raceUses(processes, `did:example:${round}`)).toEqual([])
    }
  })

  it('lose no acknowledged write, and leave none half done, if one is killed', async () => {
    for (let round = 0; round < rounds(3, 100); round += 1) {
      const { notes, writesPerSecond } = await killWhileWriting(file, 100 + 50 * round)
      expect(writesPerSecond).toBeGreaterThan(0)
      const reopened = sqliteStore(file)
      expect(await findLosses(reopened, notes)).toEqual([])
      await reopened.close()
    }
  })
})

/** Number of simultaneous calls, half of them in each process. */
const CALLS = 50

/** Milliseconds for both processes to receive their orders before they start together. */
const LEAD_MILLISECONDS = 15

/** Uses one refresh token 50 times at once in two processes. @returns the faults */
async function raceRotations(store: Store, processes: StoreProcess[], name: string): Promise<string[]> {
  await store.createSession(createSession(name, { did: `did:example:${name}` }))
  const verdicts = await inBoth(processes, (index) => ['rotateRefreshToken', createRotation(name, 0, `next ${index}`)])
  const winners = verdicts.flatMap((verdict, index) => (verdict === 'rotate' ? [index] : []))
  const faults = verdicts.filter((verdict) => verdict !== 'rotate' && verdict !== 'replaced').map(String)
  if (winners.length !== 1) faults.push(`${winners.length} winners`)
  const next = await store.rotateRefreshToken(createRotation(name, `next ${winners[0]}`, 'last'))
  if (next !== 'rotate') faults.push(`the winner's token is ${next}`)
  return faults
}

/** Refreshes in one process while the other logs out. @returns the faults */
async function raceLogout(store: Store, processes: StoreProcess[], name: string): Promise<string[]> {
  await store.createSession(createSession(name, { did: `did:example:${name}` }))
  const startAt = Date.now() + 3
  const refreshes: Call[] = [1, 2, 3].map((index) => ['rotateRefreshToken', createRotation(name, index - 1, index)])
  const [, ended] = await Promise.all([
    processes[0]!.callAll(refreshes, startAt),
    processes[1]!.callAll([['endSession', service, `session-${name}`, 'loggedOut', START_SECONDS]], startAt)
  ])
  const faults = ended[0] === true ? [] : [`the logout answered ${String(ended[0])}`]
  for (const token of [0, 1, 2, 3]) {
    const verdict = await store.rotateRefreshToken(createRotation(name, token, 'after'))
    if (verdict === 'rotate') faults.push('a token was refreshed after the logout')
  }
  return faults
}

/** Uses one challenge 50 times at once in two processes. @returns the faults */
async function raceUses(processes: StoreProcess[], name: string): Promise<string[]> {
  const outcomes = await inBoth(processes, () => ['consumeChallenge', createUse({ did: name })])
  const faults = outcomes.filter((outcome) => outcome !== 'consumed' && outcome !== 'taken').map(String)
  const used = outcomes.filter((outcome) => outcome === 'consumed').length
  return used === 1 ? faults : [...faults, `${used} were used`]
}

async function inBoth(processes: StoreProcess[], call: (index: number) => Call): Promise<unknown[]> {
  const startAt = Date.now() + LEAD_MILLISECONDS
  const share = CALLS / processes.length
  const results = await Promise.all(
    processes.map((process, number) =>
      process.callAll(
        Array.from({ length: share }, (_, index) => call(number * share + index)),
        startAt
      )
    )
  )
  return results.flat()
}

/**
 * Compares a store with the notes of a process that was killed while it wrote.
 *
 * @returns each acknowledged write that is missing, and each session without exactly one valid token
 */
async function findLosses(store: Store, notes: string[]): Promise<string[]> {
  const last = new Map<string, { verb: string; rotation: number }>()
  for (const note of notes) {
    const [verb = '', pid = '', number = '', rotation = ''] = note.split(' ')
    last.set(`${pid} ${number}`, { verb, rotation: Number(rotation) })
  }
  const losses: string[] = []
  for (const [name, { verb, rotation }] of last) {
    const validTokens: number[] = []
    // Tries the newest token first, because a replacement of an older token could make the newer one valid.
    for (let token = rotation; token >= 0; token -= 1) {
      const verdict = await store.rotateRefreshToken(createRotation(name, token, `after ${token}`))
      if (verdict === 'rotate') validTokens.push(token)
    }
    const allowed = {
      created: [[rotation]],
      rotated: [[rotation]],
      create: [[], [0]],
      rotate: [[rotation - 1], [rotation]]
    }
    const expected: number[][] = allowed[verb as keyof typeof allowed]
    const isExpected = expected.some((tokens) => tokens.join() === validTokens.join())
    if (!isExpected)
      losses.push(`session ${name} after ${verb} ${rotation}: valid tokens ${validTokens.join() || 'none'}`)
  }
  return losses
}
