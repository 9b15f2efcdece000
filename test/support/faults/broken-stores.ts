import type { EndedSession, NewSession, Rotation, Store } from '../../../src/ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../../../src/protocol/challenge.js'
import type { RefreshVerdict, StoredSession } from '../../../src/protocol/session.js'
import { memoryStore } from '../../../src/stores/memory/index.js'
import type { StoreBounds } from '../../../src/testing/index.js'

/** Function that returns faulty verbs, which replace those of a valid store. */
type Fault = (store: Store, bounds: StoreBounds) => Partial<Store>

/** Returns a memory store with some verbs replaced. */
export function makeBroken(fault: Fault, bounds: StoreBounds): Store {
  const store = memoryStore(bounds)
  return { ...store, ...fault(store, bounds) }
}

/**
 * Stores with one fault each: the fault, the contract case that must fail, and its assertion if the case has several.
 */
export const faults: readonly (readonly [what: string, fails: string, fault: Fault, says?: string])[] = [
  [
    'finds sessions of another service',
    'separates the sessions of services, even with the same ids and tokens',
    (store) => {
      let last = ''
      return {
        createSession: (session) => store.createSession({ ...session, service: (last = session.service) }),
        findSession: (_service, sessionId) => store.findSession(last, sessionId)
      }
    }
  ],
  [
    'treats the spellings of a DID as different users',
    'stores the DID as received, and finds the user by its lower-case spelling',
    answering('listSessions', (listed, [, user]) => listed.filter(({ did }) => did === user)),
    'All spellings of a DID are one user, whose sessions are listed together'
  ],
  [
    'shortens descriptions',
    'lists a session with its description, also after a refresh, or with none',
    asking('createSession', (session) => [{ ...session, description: session.description?.slice(0, 6) }])
  ],
  [
    'loses descriptions at a refresh',
    'lists a session with its description, also after a refresh, or with none',
    answering('findSession', (session) => session && { ...session, description: undefined })
  ],
  [
    'returns its stored objects instead of copies',
    'stores and returns copies, so that callers cannot change its data',
    (store) => {
      const answers = new Map<string, StoredSession | undefined>()
      return {
        findSession: async (service, sessionId) => {
          if (!answers.has(sessionId)) answers.set(sessionId, { ...(await store.findSession(service, sessionId))! })
          return answers.get(sessionId)
        }
      }
    }
  ],
  [
    'lists the oldest session first',
    "lists a user's active sessions, the newest first, until they expire",
    answering('listSessions', (listed) => listed.reverse())
  ],
  [
    'lists a session in the second in which it expires',
    "lists a user's active sessions, the newest first, until they expire",
    asking('listSessions', (service, user, nowSeconds) => [service, user, nowSeconds - 1]),
    'A session is listed up to the second before it expires'
  ],
  [
    'ends a session twice',
    'ends an active session once, and never changes its state again',
    answering('endSession', async (_, [service, id], store) => (await store.findSession(service, id)) !== undefined)
  ],
  [
    'counts the sessions of a user, and adds one a moment later',
    'stores the last 50 sessions of a user, even when 60 are created at once, twice',
    evicting(([first]) => first, { ofUser: true, isSlow: true })
  ],
  [
    'drops the newest session of a user who has 50',
    'stores 50 sessions of a user, and deletes the oldest when another is added',
    evicting((sessions) => sessions.at(-1), { ofUser: true })
  ],
  [
    'evicts the session that was created first, even if it was refreshed',
    'evicts the oldest never refreshed sessions, and counts them',
    evicting(([first]) => first),
    'A full store evicts no refreshed session while there are others'
  ],
  [
    'evicts the session that was created last',
    'evicts the oldest never refreshed sessions, and counts them',
    evicting((sessions) => sessions.at(-1))
  ],
  [
    'does not report the sessions that it evicts',
    'evicts the oldest never refreshed sessions, and counts them',
    answering('createSession', () => 0),
    'Creating a session returns the number of active sessions that were evicted for it'
  ],
  [
    'counts an ended session as evicted',
    'counts neither ended nor expired sessions as evicted',
    (store, { maxSessions = 1000 }) => {
      let count = 0
      return answering('createSession', () => ((count += 1) > maxSessions ? 1 : 0))(store, {})
    }
  ],
  [
    'has one bound for the replaced tokens of all sessions, like the memory store of version 0.1',
    'deletes no replaced token to store sessions of other users',
    (store, { maxSessions = 1000 }) => {
      const remembered: string[] = []
      return rotating((session, rotation) => {
        const isReplaced = presentsReplaced(session, rotation)
        if (isReplaced && !remembered.includes(rotation.presentedHash)) return 'unknown'
        if (!isReplaced) remembered.push(rotation.presentedHash)
        if (remembered.length > maxSessions) remembered.shift()
        return undefined
      })(store, {})
    }
  ],
  [
    'checks the token, and writes a moment later',
    'lets exactly one of 50 simultaneous rotations of a token succeed',
    rotating(async (session, rotation, store) => {
      if (session.refreshTokenHash !== rotation.presentedHash) return undefined
      await waitAMoment()
      await store.rotateRefreshToken(rotation)
      return 'rotate'
    })
  ],
  [
    'throws when two calls refresh one session, for example because of a deadlock',
    'lets one of 50 simultaneous rotations of a current and a replaced token succeed',
    (store) => {
      let current = ''
      return rotating(async (session, { sessionId }) => {
        if (current === sessionId && session.replacedTokens.length > 0) throw new Error('40P01')
        current = sessionId
        await waitAMoment()
        current = ''
        return undefined
      })(store, {})
    },
    'A store rejects none of 50 simultaneous calls, for example because of a deadlock'
  ],
  [
    'forgets replaced tokens',
    'refuses a replaced token in its grace period, and revokes its session later',
    rotating((session, rotation) => (presentsReplaced(session, rotation) ? 'unknown' : undefined))
  ],
  [
    'remembers 15 replaced tokens',
    'stores the last 16 replaced tokens of a session, and no older one',
    rotating((session, rotation) => {
      const forgotten = { ...session, replacedTokens: session.replacedTokens.slice(15) }
      return presentsReplaced(forgotten, rotation) ? 'unknown' : undefined
    })
  ],
  [
    'counts the grace period from the last rotation of the session',
    "counts each replaced token's grace period from its own replacement",
    rotating((session, rotation) =>
      presentsReplaced(session, rotation) && isWithinGrace(session, rotation) ? 'replaced' : undefined
    )
  ],
  [
    'replaces a token in the second in which it expires',
    'replaces a token until the second in which it expires',
    asking('rotateRefreshToken', (rotation) => [{ ...rotation, nowSeconds: rotation.nowSeconds - 1 }])
  ],
  [
    'never changes the claims of the login',
    'sets the claims of the session with each rotation',
    rotating(({ tokenClaims }, rotation, store) => store.rotateRefreshToken({ ...rotation, tokenClaims }))
  ],
  [
    'revokes a session whose rotation is repeated after the grace period',
    'answers repeated, and changes nothing, when a rotation is repeated',
    rotating(async (session, rotation, store) => {
      if (session.state !== 'active' || !presentsReplaced(session, rotation)) return undefined
      if (isWithinGrace(session, rotation)) return undefined
      await store.endSession(rotation.service, rotation.sessionId, 'revoked', rotation.nowSeconds)
      return 'reused'
    })
  ],
  [
    'extends a session when its rotation is repeated',
    'answers repeated, and changes nothing, when a rotation is repeated',
    (store) => {
      let end = 0
      return {
        rotateRefreshToken: async (rotation) => {
          end = Math.max(end, rotation.nextExpiresAtSeconds)
          return store.rotateRefreshToken(rotation)
        },
        findSession: async (...args) => {
          const session = await store.findSession(...args)
          return session && { ...session, expiresAtSeconds: Math.max(end, session.expiresAtSeconds) }
        }
      }
    },
    'A repeated rotation changes neither claims nor times nor tokens'
  ],
  [
    'revokes a session for a late duplicate of an honest rotation',
    'refuses a rotation whose next token was used, and revokes nothing',
    rotating(({ refreshTokenHash }, rotation, store) =>
      refreshTokenHash === rotation.nextHash
        ? undefined
        : store.rotateRefreshToken({ ...rotation, nextHash: 'of no token' })
    )
  ],
  [
    'repeats a rotation within the grace period, whatever its next token',
    'refuses a replaced token in its grace period, and revokes its session later',
    answering('rotateRefreshToken', (verdict) => (verdict === 'replaced' ? 'repeated' : verdict))
  ],
  [
    'repeats a rotation for a client that knows only the next token',
    'answers unknown to a token that was never issued, and changes nothing',
    rotating(({ refreshTokenHash }, { nextHash }) => (refreshTokenHash === nextHash ? 'repeated' : undefined))
  ],
  [
    'answers rotate to each of 50 repeated rotations',
    'rotates once, and answers repeated to the others, for 50 calls with one next token',
    answering('rotateRefreshToken', (verdict) => (verdict === 'repeated' ? 'rotate' : verdict))
  ],
  [
    'counts the grace period from the last repeated rotation',
    'detects a thief of a replaced token, even after repeated rotations',
    (store) => {
      let repeatedAt = 0
      return rotating((session, rotation) => {
        if (session.state !== 'active' || !presentsReplaced(session, rotation)) return undefined
        if (session.refreshTokenHash === rotation.nextHash) repeatedAt = rotation.nowSeconds
        else if (rotation.nowSeconds - repeatedAt <= rotation.graceSeconds) return 'replaced'
        return undefined
      })(store, {})
    }
  ],
  [
    'reports a theft to each of several simultaneous calls',
    'reports a theft once when a replaced token is used four times at once',
    rotating(async (session, rotation, store) => {
      await waitAMoment()
      const verdict = await store.rotateRefreshToken(rotation)
      return session.state === 'active' && verdict === 'ended' ? 'reused' : verdict
    })
  ],
  [
    'lets a refresh that began before a logout continue after it',
    'rotates no token after a logout was answered, even if both raced',
    (store) => {
      const running = new Set<string>()
      return {
        rotateRefreshToken: async (rotation) => {
          running.add(rotation.sessionId)
          await waitAMoment()
          return store.rotateRefreshToken(rotation).finally(() => running.delete(rotation.sessionId))
        },
        endSession: async (service, id, ...rest) => running.has(id) || store.endSession(service, id, ...rest)
      }
    }
  ],
  [
    'counts the uses of a challenge, and adds one a moment later',
    'lets exactly one of 50 simultaneous calls consume a challenge',
    (store) => ({
      consumeChallenge: async (use) => {
        const counts = await store.countChallengeUses(use)
        await waitAMoment()
        if (counts[use.flow] !== use.useCount) return 'taken'
        await store.consumeChallenge(use)
        return 'consumed'
      }
    })
  ],
  [
    'accepts any use count above the stored one',
    'answers taken, and changes nothing, when the count is another one',
    (store) => ({
      consumeChallenge: async (use) => {
        const counts = await store.countChallengeUses(use)
        return use.useCount > counts[use.flow] ? 'consumed' : store.consumeChallenge(use)
      }
    })
  ],
  [
    'lowers the count of the other flow',
    'raises the other flow to at least the same count when the signature is valid in both',
    (store) => {
      let bothAt = 0
      return {
        consumeChallenge: (use) => {
          if (use.consumesBoth) bothAt = use.useCount + 1
          return store.consumeChallenge(use)
        },
        countChallengeUses: async (key) => {
          const { logIn, signUp } = await store.countChallengeUses(key)
          return bothAt === logIn ? { logIn, signUp: logIn } : { logIn, signUp }
        }
      }
    },
    'A use with consumesBoth leaves a higher other count'
  ],
  [
    'deletes the uses of a window, and accepts its challenges again',
    'makes no used challenge valid again when a clock is set back',
    () => {
      const uses = new Map<string, { count: number; expiresAtSeconds: number }>()
      return {
        consumeChallenge: async ({ did, window, flow, useCount, nowSeconds, expiresAtSeconds }) => {
          for (const [key, use] of uses) {
            if (use.expiresAtSeconds <= nowSeconds - USES_OUTLIVE_WINDOW_SECONDS) uses.delete(key)
          }
          const key = `${did} ${window} ${flow}`
          if (nowSeconds >= expiresAtSeconds || (uses.get(key)?.count ?? 0) !== useCount) return 'taken'
          uses.set(key, { count: useCount + 1, expiresAtSeconds })
          return 'consumed'
        }
      }
    }
  ],
  [
    'refuses each window that any clock has passed',
    'refuses users for at most a window after a clock that ran ahead',
    (store) => {
      let passedSeconds = 0
      return {
        consumeChallenge: async (use) => {
          passedSeconds = Math.max(passedSeconds, use.nowSeconds - USES_OUTLIVE_WINDOW_SECONDS)
          return use.expiresAtSeconds <= passedSeconds ? 'taken' : store.consumeChallenge(use)
        }
      }
    }
  ],
  [
    'ends a slot early when exactly two slots of it remain',
    'counts in a slot that ends at most two slots from now, as another clock may begin it',
    (store) => {
      const ends = new Map<string, number>()
      return {
        chargeQuota: async (charge) => {
          const isFar = ends.get(charge.key) === charge.nowSeconds + 2 * charge.timeSlotSeconds
          const state = await store.chargeQuota(isFar ? { ...charge, key: `${charge.key} again` } : charge)
          ends.set(charge.key, state.resetsAtSeconds)
          return state
        }
      }
    }
  ],
  [
    'forgets a use in the second in which its window ends',
    'remembers a use for an instance whose clock is up to 60 s behind',
    (store) => {
      let newest = 0
      return {
        consumeChallenge: (use) => {
          newest = Math.max(newest, use.window)
          return store.consumeChallenge(use)
        },
        countChallengeUses: async (key) =>
          key.window < newest ? { logIn: 0, signUp: 0 } : store.countChallengeUses(key)
      }
    }
  ],
  [
    'consumes a challenge that it cannot store because it is full',
    'deletes no use for 60 s after its window, even when full',
    (store) => {
      let isFull = false
      return {
        consumeChallenge: async (use) => {
          const answer = isFull && use.useCount === 0 ? 'full' : await store.consumeChallenge(use)
          isFull ||= answer === 'full'
          return answer === 'full' ? 'consumed' : answer
        }
      }
    }
  ],
  [
    'does not record logouts',
    'lists the sessions that were logged out or revoked',
    asking('endSession', (service, id, state, nowSeconds) => [service, id, state, nowSeconds])
  ],
  [
    'does not record the sessions of a user that are revoked together',
    'lists all sessions of a user that were revoked together',
    asking('revokeSessions', (service, user, nowSeconds) => [service, user, nowSeconds])
  ],
  [
    'does not record thefts',
    'lists a session that was revoked because of a theft',
    asking('rotateRefreshToken', (rotation) => [{ ...rotation, listUntilSeconds: undefined }])
  ],
  [
    'records the end of a session with each rotation',
    'lists a session that was revoked because of a theft',
    recordingAlso('rotateRefreshToken', ([{ sessionId, nowSeconds }]) => ({ sessionId, endedAtSeconds: nowSeconds })),
    'A rotation that succeeds records no end'
  ],
  [
    'does not record the sessions of a user that it drops',
    'lists an active session that was dropped because its user has 50 others',
    asking('createSession', (session) => [{ ...session, listUntilSeconds: undefined }])
  ],
  [
    'does not record the sessions that it evicts',
    'lists active sessions that were evicted, and no others',
    asking('createSession', (session) => [{ ...session, listUntilSeconds: undefined }])
  ],
  [
    'records the end of a session that had ended before',
    'lists no session that had ended or expired before',
    recordingAlso('endSession', ([, sessionId, , endedAtSeconds], isEnded) =>
      isEnded ? undefined : { sessionId, endedAtSeconds }
    )
  ],
  [
    'records the end of a session in its row',
    'lists an ended session even after it has deleted the session',
    answering('listEndedSessions', async (listed, [service], store) => {
      const found = await Promise.all(listed.map(({ sessionId }) => store.findSession(service, sessionId)))
      return listed.filter((_, index) => found[index] !== undefined)
    })
  ],
  [
    'lists the last ended session first',
    'lists ended sessions from a second on, in the order of their times',
    answering('listEndedSessions', (listed) => listed.reverse())
  ],
  [
    'does not list the second from which it was asked',
    'lists ended sessions from a second on, in the order of their times',
    asking('listEndedSessions', (service, sinceSeconds, limit) => [service, sinceSeconds + 1, limit])
  ],
  [
    'cuts a list at its limit',
    'ends a list with the full second in which it reaches its limit',
    answering('listEndedSessions', (listed, [, , limit]) => listed.slice(0, limit))
  ],
  [
    'ignores the limit of a list',
    'ends a list with the full second in which it reaches its limit',
    asking('listEndedSessions', (service, sinceSeconds) => [service, sinceSeconds, Infinity])
  ],
  [
    'has one list of ended sessions for all services',
    'lists the ended sessions of each service separately',
    asking('listEndedSessions', (_service, sinceSeconds, limit) => ['https://service.example', sinceSeconds, limit])
  ],
  [
    'records the end of every session',
    'records no end without a time until which to list it',
    asking('endSession', (service, id, state, nowSeconds) => [service, id, state, nowSeconds, nowSeconds + 660])
  ],
  [
    'checks the state of a session, and records its end a moment later',
    'records one end of a session, even by 50 simultaneous calls',
    (store) => {
      const also = recordingAlso('findSession', ([, sessionId], session) =>
        session?.state === 'active' ? { sessionId, endedAtSeconds: session.createdAtSeconds } : undefined
      )(store, {})
      return {
        ...also,
        endSession: async (service, id, state, nowSeconds) => {
          await also.findSession?.(service, id)
          await waitAMoment()
          return store.endSession(service, id, state, nowSeconds)
        }
      }
    }
  ],
  [
    'adds a charge that the limit refuses',
    'refuses a charge that would exceed the limit, and adds nothing',
    (store) => ({
      chargeQuota: async ({ limit = Infinity, ...charge }) => {
        const state = await store.chargeQuota(charge)
        return { ...state, isCharged: state.count <= limit }
      }
    })
  ],
  [
    'begins a slot with a charge that it refuses',
    'begins no time slot by a refused charge',
    answering('chargeQuota', async (state, [charge], store) => {
      if (!state.isCharged) await store.chargeQuota({ ...charge, cost: 0, limit: undefined })
      return state
    })
  ],
  [
    'checks the limit, and adds a moment later',
    'accepts exactly 20 of 50 simultaneous charges with a limit of 20',
    (store) => {
      const counts = new Map<string, number>()
      return {
        chargeQuota: async ({ limit = Infinity, ...charge }) => {
          const isCharged = (counts.get(charge.key) ?? 0) + charge.cost <= limit
          await waitAMoment()
          counts.set(charge.key, (counts.get(charge.key) ?? 0) + charge.cost)
          return { ...(await store.chargeQuota(charge)), isCharged }
        }
      }
    }
  ],
  [
    'reads a count, and writes it a moment later',
    'counts every one of 50 simultaneous charges',
    () => {
      let count = 0
      return {
        chargeQuota: async ({ cost, nowSeconds, timeSlotSeconds }) => {
          const next = count + cost
          await waitAMoment()
          count = next
          return { isCharged: true, count: next, resetsAtSeconds: nowSeconds + timeSlotSeconds }
        }
      }
    }
  ],
  [
    'adds 1 whatever the cost',
    'adds the cost of a charge, also one of more than 32 bits',
    asking('chargeQuota', (charge) => [{ ...charge, cost: 1 }])
  ],
  [
    'has one bound for the quotas of users and anonymous clients',
    "deletes no user's quota to store anonymous ones",
    asking('chargeQuota', (charge) => [{ ...charge, kind: 'request', key: `${charge.kind} ${charge.key}` }])
  ]
]

type Verbs = Omit<Required<Store>, 'ping' | 'close'>
type Verb = keyof Verbs
type Answer<V extends Verb> = Awaited<ReturnType<Verbs[V]>>
type Call = (...args: unknown[]) => Promise<unknown>

/** Returns a fault that replaces the result of a verb. */
function answering<V extends Verb>(
  verb: V,
  change: (answer: Answer<V>, args: Parameters<Verbs[V]>, store: Store) => Answer<V> | Promise<Answer<V>>
): Fault {
  return (store) => ({
    [verb]: async (...args: Parameters<Verbs[V]>) =>
      change((await (store[verb] as Call)(...args)) as Answer<V>, args, store)
  })
}

/** Returns a fault that replaces the arguments of a verb. */
function asking<V extends Verb>(verb: V, change: (...args: Parameters<Verbs[V]>) => Parameters<Verbs[V]>): Fault {
  return (store) => ({ [verb]: (...args: Parameters<Verbs[V]>) => (store[verb] as Call)(...change(...args)) })
}

/** Returns a fault that records an end too many with some calls of a verb. */
function recordingAlso<V extends Verb>(
  verb: V,
  toRecord: (args: Parameters<Verbs[V]>, answer: Answer<V>) => EndedSession | undefined
): Fault {
  return (store, bounds) => {
    const records: EndedSession[] = []
    const record = answering(verb, (answer, args) => {
      const ended = toRecord(args, answer)
      if (ended !== undefined) records.push(ended)
      return answer
    })
    return {
      ...record(store, bounds),
      listEndedSessions: async (...args) => [...((await store.listEndedSessions?.(...args)) ?? []), ...records]
    }
  }
}

/** Returns a fault in which `judge` decides a rotation. If it returns undefined, the valid store decides. */
function rotating(
  judge: (session: StoredSession, rotation: Rotation, store: Store) => Verdict | Promise<Verdict>
): Fault {
  return (store) => ({
    rotateRefreshToken: async (rotation) => {
      const session = await store.findSession(rotation.service, rotation.sessionId)
      return (session && (await judge(session, rotation, store))) ?? store.rotateRefreshToken(rotation)
    }
  })
}

type Verdict = RefreshVerdict | undefined

/**
 * Returns a fault that hides one session when another is created, if the store is full or a user has 50 sessions. It
 * hides the session because the port has no verb that deletes one.
 *
 * @param options - `isSlow`: waits a moment between count and insert
 */
function evicting(
  choose: (sessions: NewSession[]) => NewSession | undefined,
  options: { ofUser?: boolean; isSlow?: boolean } = {}
): Fault {
  return (_store, { maxSessions = 1000 }) => {
    // Each session gets a separate user there, so that the limit of 50 does not apply.
    const store = memoryStore()
    let sessions: NewSession[] = []
    const listNewSessions = (service: string, did: string): NewSession[] =>
      sessions.filter((session) => session.service === service && session.did === did)
    const findSession = async (service: string, id: string): Promise<StoredSession | undefined> =>
      sessions.some((session) => session.service === service && session.sessionId === id)
        ? store.findSession(service, id)
        : undefined
    return {
      findSession,
      rotateRefreshToken: (rotation) => store.rotateRefreshToken(rotation),
      listSessions: async (service, did) => {
        const sessionsFound = await Promise.all(
          listNewSessions(service, did).map(({ sessionId }) => findSession(service, sessionId))
        )
        return sessionsFound.reverse().filter((storedSession) => storedSession !== undefined)
      },
      createSession: async (session) => {
        const others = options.ofUser === true ? listNewSessions(session.service, session.did) : sessions
        if (options.isSlow === true) await waitAMoment()
        const isFull = others.length >= (options.ofUser === true ? 50 : maxSessions)
        const evicted = isFull ? choose(others) : undefined
        sessions = [...sessions.filter((storedSession) => storedSession !== evicted), session]
        await store.createSession({ ...session, did: `${session.did}#${session.sessionId}` })
        return isFull && options.ofUser !== true ? 1 : 0
      }
    }
  }
}

/** Waits until other calls have run, as they may between a read and a write. */
function waitAMoment(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

/** Whether the presented token is one of the replaced tokens of the session. */
function presentsReplaced(session: StoredSession, { presentedHash }: Rotation): boolean {
  return session.replacedTokens.some(({ hash }) => presentedHash.startsWith(hash))
}

function isWithinGrace({ rotatedAtSeconds }: StoredSession, { nowSeconds, graceSeconds }: Rotation): boolean {
  return nowSeconds - rotatedAtSeconds <= graceSeconds
}
