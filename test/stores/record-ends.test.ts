import { expect, it, jest } from '@jest/globals'
import { memoryStore } from '../../src/stores/memory/index.js'
import { recordEnds } from '../../src/stores/record-ends.js'

const service = 'https://service.example'
const did = 'did:ethr:0x7e5f4552091a69125d5dfcb7b8c2659029395bdf'

it('has the store list each session for 60 s after its end, whichever verb ends it', async () => {
  const store = memoryStore()
  const verbs = (['createSession', 'rotateRefreshToken', 'endSession', 'revokeSessions'] as const).map((verb) =>
    jest.spyOn(store, verb)
  )
  const recording = recordEnds(store, 60)
  const session = { service, sessionId: 'a', did, tokenClaims: undefined, expiresAtSeconds: 10_000 }
  await recording.createSession({ ...session, refreshTokenHash: 'first', nowSeconds: 1_000 })
  const hashes = { presentedHash: 'first', nextHash: 'second', graceSeconds: 10 }
  const rotation = { service, sessionId: 'a', tokenClaims: undefined, nextExpiresAtSeconds: 10_000, ...hashes }
  expect(await recording.rotateRefreshToken({ ...rotation, nowSeconds: 2_000 })).toBe('rotate')
  expect(await recording.endSession(service, 'a', 'loggedOut', 3_000)).toBe(true)
  expect(await recording.revokeSessions(service, did, 4_000)).toBe(0)
  const [created, rotated, ended, revoked] = verbs.map(({ mock }) => mock.calls[0] as unknown[])
  expect([created![0], rotated![0], ended!.at(-1), revoked!.at(-1)]).toEqual([
    expect.objectContaining({ listUntilSeconds: 1_060 }),
    expect.objectContaining({ listUntilSeconds: 2_060 }),
    3_060,
    4_060
  ])
  expect(await recording.listEndedSessions!(service, 0, 10)).toEqual([{ sessionId: 'a', endedAtSeconds: 3_000 }])
  await recording.close()
})
