import { isDeepStrictEqual } from 'node:util'
import type { Store } from '../../../src/ports.js'
import { MAX_SESSIONS_PER_DID } from '../../../src/protocol/session.js'
import {
  createCharge,
  hashToken,
  createRotation,
  service,
  createSession,
  START_SECONDS,
  createUse
} from '../../../src/testing/store-case.js'
import { catchCode } from '../fixtures/refusal.js'
import type { Cut, TcpProxy } from './tcp-proxy.js'

/** Store verb whose connection is cut, and the results that are allowed. */
interface LostAnswer {
  verb: string
  /** Name of the statement at which the connection is cut. */
  statement: string
  /**
   * Calls the verb.
   *
   * @param name - unique name of the session and user of this case
   * @returns the answer of the verb, and the stored state
   */
  run: (store: Store, name: string, cut: () => void) => Promise<unknown[]>
  /** Allowed results of `run`. */
  allowed: unknown[][]
}

const createDid = (name: string): string => `did:example:${name.replaceAll(' ', '')}`
const later = { nowSeconds: START_SECONDS + 60 }
const listUntilSeconds = START_SECONDS + 660

/** Returns the number of records of a session's end. */
async function countEnds(store: Store, name: string): Promise<number> {
  const ended = (await store.listEndedSessions?.(service, 0, 1_000_000)) ?? []
  return ended.filter(({ sessionId }) => sessionId === `session-${name}`).length
}

const CASES: LostAnswer[] = [
  ...['did_auth_session_insert', 'did_auth_session_trim'].map((statement) => ({
    verb: 'createSession',
    statement,
    run: async (store: Store, name: string, cut: () => void) => {
      cut()
      const evicted = await store.createSession(createSession(name, { did: createDid(name) }))
      const listed = await store.listSessions(service, createDid(name), START_SECONDS)
      return [evicted, listed.length, await store.rotateRefreshToken(createRotation(name, 0, 1))]
    },
    allowed: [[0, 1, 'rotate']]
  })),
  {
    verb: 'rotateRefreshToken',
    statement: 'did_auth_session_rotate',
    run: async (store, name, cut) => {
      await store.createSession(createSession(name, { did: createDid(name) }))
      cut()
      const verdict = await store.rotateRefreshToken(createRotation(name, 0, 1))
      const session = await store.findSession(service, `session-${name}`)
      const isCurrent = session?.refreshTokenHash === hashToken(name, 1)
      return [verdict, session?.state, isCurrent, session?.replacedTokens.length]
    },
    allowed: [['rotate', 'active', true, 1]]
  },
  {
    verb: 'createSession (drops an active session)',
    statement: 'did_auth_session_trim_recorded',
    run: async (store, name, cut) => {
      const createOne = (index: number): Promise<number> =>
        store.createSession(createSession(`${name} ${index}`, { did: createDid(name), listUntilSeconds }))
      for (let index = 0; index < MAX_SESSIONS_PER_DID; index += 1) await createOne(index)
      cut()
      const evicted = await createOne(MAX_SESSIONS_PER_DID)
      const listed = await store.listSessions(service, createDid(name), START_SECONDS)
      return [evicted, listed.length, await countEnds(store, `${name} 0`)]
    },
    allowed: [[0, MAX_SESSIONS_PER_DID, 1]]
  },
  ...[undefined, listUntilSeconds].flatMap((listUntil): LostAnswer[] => {
    const suffix = listUntil === undefined ? '' : '_recorded'
    const ends = listUntil === undefined ? 0 : 1
    return [
      {
        verb: 'rotateRefreshToken (reused)',
        statement: `did_auth_session_revoke${suffix}`,
        run: async (store, name, cut) => {
          await store.createSession(createSession(name, { did: createDid(name) }))
          await store.rotateRefreshToken(createRotation(name, 0, 1))
          cut()
          const theft = createRotation(name, 0, 2, { ...later, listUntilSeconds: listUntil })
          const verdict = await store.rotateRefreshToken(theft)
          const state = (await store.findSession(service, `session-${name}`))?.state
          return [verdict, state, await countEnds(store, name)]
        },
        allowed: [['reused', 'revoked', ends]]
      },
      {
        verb: 'endSession',
        statement: `did_auth_session_end${suffix}`,
        run: async (store, name, cut) => {
          await store.createSession(createSession(name, { did: createDid(name) }))
          cut()
          const wasActive = await store.endSession(service, `session-${name}`, 'loggedOut', START_SECONDS, listUntil)
          const state = (await store.findSession(service, `session-${name}`))?.state
          return [wasActive, state, await countEnds(store, name)]
        },
        allowed: [[true, 'loggedOut', ends]]
      },
      {
        verb: 'revokeSessions',
        statement: `did_auth_session_revoke_all${suffix}`,
        run: async (store, name, cut) => {
          await store.createSession(createSession(name, { did: createDid(name) }))
          cut()
          const outcome = await catchCode(store.revokeSessions(service, createDid(name), START_SECONDS, listUntil))
          const state = (await store.findSession(service, `session-${name}`))?.state
          return [outcome, state, await countEnds(store, name)]
        },
        // The verb is not repeated, because a second attempt would return 0 sessions.
        allowed: [
          ['ERR_STORE', 'active', 0],
          ['ERR_STORE', 'revoked', ends]
        ]
      }
    ]
  }),
  {
    verb: 'consumeChallenge (first)',
    statement: 'did_auth_first_log_in',
    run: async (store, name, cut) => {
      cut()
      const outcome = await store.consumeChallenge(createUse({ did: createDid(name) }))
      const secondAnswer = await store.consumeChallenge(createUse({ did: createDid(name) }))
      return [outcome, secondAnswer, (await store.countChallengeUses(createUse({ did: createDid(name) }))).logIn]
    },
    allowed: [['consumed', 'taken', 1]]
  },
  {
    verb: 'consumeChallenge (next)',
    statement: 'did_auth_next_sign_up',
    run: async (store, name, cut) => {
      const use = { did: createDid(name), flow: 'signUp', consumesBoth: true } as const
      await store.consumeChallenge(createUse(use))
      cut()
      const outcome = await store.consumeChallenge(createUse({ ...use, useCount: 1 }))
      const secondAnswer = await store.consumeChallenge(createUse({ ...use, useCount: 1 }))
      return [outcome, secondAnswer, (await store.countChallengeUses(createUse(use))).logIn]
    },
    allowed: [['consumed', 'taken', 2]]
  },
  {
    verb: 'chargeQuota',
    statement: 'did_auth_request_quotas_charge',
    run: async (store, name, cut) => {
      cut()
      const { isCharged, count } = await store.chargeQuota(createCharge({ key: name }))
      return [isCharged, count]
    },
    allowed: [
      [true, 1],
      [true, 2]
    ]
  },
  ...(
    [
      ['did_auth_session_find', (store, name) => store.findSession(service, `session-${name}`)],
      ['did_auth_session_list_ended', (store) => store.listEndedSessions!(service, 0, 3)],
      ['did_auth_session_list', (store, name) => store.listSessions(service, createDid(name), START_SECONDS)],
      ['did_auth_find_use', (store, name) => store.countChallengeUses(createUse({ did: createDid(name) }))]
    ] as [statement: string, read: (store: Store, name: string) => Promise<unknown>][]
  ).map(([statement, read]) => ({
    verb: statement,
    statement,
    run: async (store: Store, name: string, cut: () => void) => {
      const before = await read(store, name)
      cut()
      return [isDeepStrictEqual(await read(store, name), before)]
    },
    allowed: [[true]]
  }))
]

/**
 * Cuts the connection of each verb once per round, alternately before its answer and before its request arrives.
 *
 * @param store - a store behind the proxy
 * @returns the results that are not allowed
 */
export async function loseAnswers(store: Store, proxy: TcpProxy, rounds: number): Promise<string[]> {
  const faults: string[] = []
  for (const { verb, statement, run, allowed } of CASES) {
    for (let round = 0; round < rounds; round += 1) {
      const when: Cut = round % 2 === 0 ? 'before the answer' : 'before the request'
      const cutsBefore = proxy.cuts()
      const answers = await run(store, `${verb} ${statement} ${round}`, () => proxy.cut(statement, when)).catch(
        (error: unknown) => [String(error), String((error as Error).cause)]
      )
      const isAllowed =
        proxy.cuts() === cutsBefore + 1 && allowed.some((allowedAnswers) => isDeepStrictEqual(allowedAnswers, answers))
      if (!isAllowed) faults.push(`${verb}, ${statement} cut ${when}: ${JSON.stringify(answers)}`)
    }
  }
  return faults
}
