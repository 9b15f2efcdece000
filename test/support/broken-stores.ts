import type { NewSession, Rotation, Store } from '../../src/ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../../src/protocol/challenge.js'
import type { RefreshVerdict, StoredSession } from '../../src/protocol/session.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import type { StoreBounds } from '../../src/testing/index.js'

/** Verbs in place of those of a good store. */
type Fault = (store: Store, bounds: StoreBounds) => Partial<Store>

/** A memory store with some verbs replaced. */
export function makeBroken(fault: Fault, bounds: StoreBounds): Store {
  const store = memoryStore(bounds)
  return { ...store, ...fault(store, bounds) }
}

/** Stores with one fault each: what is wrong, the case that has to fail, the promise that is broken. */
export const faults: readonly (readonly [what: string, fails: string, says: string, fault: Fault])[] = [
  [
    'knows sessions of another service',
    "keeps each service's sessions to itself, also those with the same ids and tokens",
    "A service sees and changes none of another service's sessions",
    (store) => {
      let last = ''
      return {
        createSession: (session) => store.createSession({ ...session, service: (last = session.service) }),
        findSession: (_service, sessionId) => store.findSession(last, sessionId)
      }
    }
  ],
  [
    'tells spellings of a DID apart',
    'keeps the DID as received and knows the user by its lower-case spelling',
    'All spellings of a DID are one user, whose sessions are listed together',
    answering('listSessions', (listed, [, user]) => listed.filter(({ did }) => did === user))
  ],
  [
    'gives away the objects that it keeps',
    'stores and answers copies, which a caller cannot change it through',
    'A session does not change when objects that were passed or answered change',
    (store) => {
      const given = new Map<string, StoredSession | undefined>()
      return {
        findSession: async (service, sessionId) => {
          if (!given.has(sessionId)) given.set(sessionId, { ...(await store.findSession(service, sessionId))! })
          return given.get(sessionId)
        }
      }
    }
  ],
  [
    'lists the oldest session first',
    "lists a user's active sessions, the newest first, until they end",
    'Active sessions of the user alone are listed, the one created last first',
    answering('listSessions', (listed) => listed.reverse())
  ],
  [
    'lists a session in the second in which it expires',
    "lists a user's active sessions, the newest first, until they end",
    'A session is not listed from the second on in which it expires',
    asking('listSessions', (service, user, nowSeconds) => [service, user, nowSeconds - 1])
  ],
  [
    'ends a session twice',
    'ends an active session once, and its state never changes after',
    'Ending answers true for a session that was active, else false',
    answering('endSession', async (_, [service, id], store) => (await store.findSession(service, id)) !== undefined)
  ],
  [
    'counts the sessions of a user before it adds one',
    'keeps the last 50 sessions of a user, also when 60 come at once, twice',
    'A user has 50 sessions once all 60 of the first burst were answered',
    evicting(([first]) => first, { ofUser: true, isSlow: true })
  ],
  [
    'drops the newest session of a user who has 50',
    'keeps 50 sessions of a user and drops the oldest when another comes',
    'The 50 sessions of a user that were created last are listed, the newest first',
    evicting((sessions) => sessions.at(-1), { ofUser: true })
  ],
  [
    'evicts the session created first, also when it was refreshed',
    'evicts sessions that were never refreshed, the oldest first, and counts them',
    'A full store evicts no refreshed session while there are others',
    evicting(([first]) => first)
  ],
  [
    'evicts the session created last',
    'evicts sessions that were never refreshed, the oldest first, and counts them',
    'A full store evicts the oldest of the sessions that were never refreshed',
    evicting((sessions) => sessions.at(-1))
  ],
  [
    'says nothing of the sessions that it evicts',
    'evicts sessions that were never refreshed, the oldest first, and counts them',
    'Creating a session answers how many active ones were evicted for it',
    answering('createSession', () => 0)
  ],
  [
    'counts an ended session as evicted',
    'counts neither ended nor expired sessions as evicted',
    'Only sessions that were active count as evicted',
    (store, { maxSessions = 1000 }) => {
      let count = 0
      return answering('createSession', () => ((count += 1) > maxSessions ? 1 : 0))(store, {})
    }
  ],
  [
    'remembers replaced tokens of all sessions up to one bound, as the memory store of version 0.1',
    "forgets no replaced token of a session for the sake of strangers' sessions and refreshes",
    'A replaced token that comes back is noticed, however much strangers do',
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
    'looks at the token, and writes a moment later',
    'lets exactly one of 50 win that use a token at once',
    'Of 50 simultaneous rotations to different tokens exactly one rotates, and the others are refused',
    rotating(async (session, rotation, store) => {
      if (session.refreshTokenHash !== rotation.presentedHash) return undefined
      await aMoment()
      await store.rotateRefreshToken(rotation)
      return 'rotate'
    })
  ],
  [
    'is rejected by its database when two refresh one session, as by a deadlock',
    'lets one of 50 win that use the current and a replaced token of a session at once',
    'None of 50 calls that come at once is rejected, as by a deadlock',
    (store) => {
      let current = ''
      return rotating(async (session, { sessionId }) => {
        if (current === sessionId && session.replacedTokens.length > 0) throw new Error('40P01')
        current = sessionId
        await aMoment()
        current = ''
        return undefined
      })(store, {})
    }
  ],
  [
    'forgets replaced tokens',
    'refuses a replaced token within the grace, and revokes its session after it',
    'A replaced token is only refused up to 10 s after its replacement, with a grace of 10 s',
    rotating((session, rotation) => (presentsReplaced(session, rotation) ? 'unknown' : undefined))
  ],
  [
    'remembers 15 replaced tokens',
    'remembers the last 16 replaced tokens of a session, and no older one',
    'The last 16 replaced tokens of a session are remembered',
    rotating((session, rotation) => {
      const forgotten = { ...session, replacedTokens: session.replacedTokens.slice(15) }
      return presentsReplaced(forgotten, rotation) ? 'unknown' : undefined
    })
  ],
  [
    'counts the grace from the last rotation of the session',
    "counts each replaced token's grace from its own replacement",
    'A token replaced 5 s ago is refused and one replaced 15 s ago is reused, with a grace of 10 s',
    rotating((session, rotation) =>
      presentsReplaced(session, rotation) && isWithinGrace(session, rotation) ? 'replaced' : undefined
    )
  ],
  [
    'replaces a token in the second in which it expires',
    'replaces a token until the second in which it expires',
    'A token is not replaced from the second on in which it expires',
    asking('rotateRefreshToken', (rotation) => [{ ...rotation, nowSeconds: rotation.nowSeconds - 1 }])
  ],
  [
    'keeps the claims of the login for ever',
    'sets the claims of the session with each rotation',
    'A rotation replaces the claims of the session',
    rotating(({ tokenClaims }, rotation, store) => store.rotateRefreshToken({ ...rotation, tokenClaims }))
  ],
  [
    'revokes a session whose rotation is repeated after the grace',
    'answers repeated, and changes nothing, when a rotation comes again',
    'The same rotation is repeated on each instance, and at any time until the session ends',
    rotating(async (session, rotation, store) => {
      if (session.state !== 'active' || !presentsReplaced(session, rotation)) return undefined
      if (isWithinGrace(session, rotation)) return undefined
      await store.endSession(rotation.service, rotation.sessionId, 'revoked', rotation.nowSeconds)
      return 'reused'
    })
  ],
  [
    'moves the end of a session that repeats its rotation',
    'answers repeated, and changes nothing, when a rotation comes again',
    'A repeated rotation changes neither claims nor times nor tokens',
    (store) => {
      let end = 0
      return {
        rotateRefreshToken: async (rotation) => {
          end = Math.max(end, rotation.nextExpiresAtSeconds)
          return store.rotateRefreshToken(rotation)
        },
        findSession: async (...args) => {
          const found = await store.findSession(...args)
          return found && { ...found, expiresAtSeconds: Math.max(end, found.expiresAtSeconds) }
        }
      }
    }
  ],
  [
    'revokes a session for a late duplicate of an honest rotation',
    'refuses a rotation whose next token was used, and revokes nothing',
    'A late duplicate of an honest rotation is only refused, also after the grace',
    rotating(({ refreshTokenHash }, rotation, store) =>
      refreshTokenHash === rotation.nextHash
        ? undefined
        : store.rotateRefreshToken({ ...rotation, nextHash: 'of no token' })
    )
  ],
  [
    'repeats a rotation by time alone',
    'refuses a replaced token within the grace, and revokes its session after it',
    'A replaced token is only refused up to 10 s after its replacement, with a grace of 10 s',
    answering('rotateRefreshToken', (verdict) => (verdict === 'replaced' ? 'repeated' : verdict))
  ],
  [
    'repeats a rotation for a client that knows the next token only',
    'answers unknown for a token that it never saw, and changes nothing',
    'A token of no session, or of another one, is unknown, whatever it asks to be replaced by',
    rotating(({ refreshTokenHash }, { nextHash }) => (refreshTokenHash === nextHash ? 'repeated' : undefined))
  ],
  [
    'answers rotate to each of 50 repeated rotations',
    'rotates once, and repeats it for all others, when 50 come with one next token',
    'Of 50 simultaneous rotations to one next token exactly one rotates, and the others are repeated',
    answering('rotateRefreshToken', (verdict) => (verdict === 'repeated' ? 'rotate' : verdict))
  ],
  [
    'counts the grace from the last time that a rotation was repeated',
    'notices another who has the replaced token, however often it was repeated',
    'The grace runs from the replacement, not from a repeated rotation',
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
    'logs out and lets a refresh that began before go on',
    'refreshes nothing after a logout was answered, whichever was faster',
    'No token of a session is good once its logout was answered',
    (store) => {
      const running = new Set<string>()
      return {
        rotateRefreshToken: async (rotation) => {
          running.add(rotation.sessionId)
          await aMoment()
          return store.rotateRefreshToken(rotation).finally(() => running.delete(rotation.sessionId))
        },
        endSession: async (service, id, ...rest) => running.has(id) || store.endSession(service, id, ...rest)
      }
    }
  ],
  [
    'counts the uses of a challenge, and adds one a moment later',
    'lets exactly one of 50 use a challenge that come at once',
    'Of 50 that consume a challenge at once exactly one succeeds',
    (store) => ({
      consumeChallenge: async (use) => {
        const counts = await store.countChallengeUses(use)
        await aMoment()
        if (counts[use.flow] !== use.useCount) return 'taken'
        await store.consumeChallenge(use)
        return 'consumed'
      }
    })
  ],
  [
    'accepts any number above the count',
    'answers taken, and changes nothing, when the count is another one',
    'Challenge number 1 is not consumed while the count is 0',
    (store) => ({
      consumeChallenge: async (use) => {
        const counts = await store.countChallengeUses(use)
        return use.useCount > counts[use.flow] ? 'consumed' : store.consumeChallenge(use)
      }
    })
  ],
  [
    'sets the count of the other flow back',
    'raises the other flow to at least the same count when the signature is good in both',
    'A use with consumesBoth leaves a higher other count',
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
    }
  ],
  [
    'forgets a window and knows not that it did',
    'makes no use good again when a clock is set back',
    'A used challenge is taken also after its window was forgotten, by the clock of each instance',
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
    'closes each window that any clock has passed',
    'refuses no user for longer than a window after a clock that ran ahead',
    'Only windows up to the last that was forgotten stay closed, not those that a wrong clock has passed',
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
    'forgets a use in the second in which its window ends',
    'remembers a use for an instance whose clock is up to 60 s behind',
    'A count is remembered until its window has been over for 60 s',
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
    'makes a full store consume what it cannot remember',
    'forgets no use before its window has been over for 60 s, also when it is full',
    'A full store forgets no use, and counts those it knows',
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
    'adds what the limit refuses',
    'refuses what would lift the count above the limit, and adds nothing then',
    'A charge that would lift the count above the limit is refused and adds nothing',
    (store) => ({
      chargeQuota: async ({ limit = Infinity, ...charge }) => {
        const state = await store.chargeQuota(charge)
        return { ...state, isCharged: state.count <= limit }
      }
    })
  ],
  [
    'begins a slot by a charge that it refuses',
    'begins no slot by a charge that it refuses',
    'A slot begins with the first charge that is not refused',
    answering('chargeQuota', async (state, [charge], store) => {
      if (!state.isCharged) await store.chargeQuota({ ...charge, cost: 0, limit: undefined })
      return state
    })
  ],
  [
    'looks at the limit, and adds a moment later',
    'charges exactly 20 of 50 that come at once with a limit of 20',
    'Of 50 simultaneous charges as many are good as the limit says',
    (store) => {
      const counts = new Map<string, number>()
      return {
        chargeQuota: async ({ limit = Infinity, ...charge }) => {
          const isCharged = (counts.get(charge.key) ?? 0) + charge.cost <= limit
          await aMoment()
          counts.set(charge.key, (counts.get(charge.key) ?? 0) + charge.cost)
          return { ...(await store.chargeQuota(charge)), isCharged }
        }
      }
    }
  ],
  [
    'reads a count, and writes it a moment later',
    'loses no charge of 50 that come at once',
    'Each of 50 simultaneous charges is told another count, up to 50',
    () => {
      let count = 0
      return {
        chargeQuota: async ({ cost, nowSeconds, timeSlotSeconds }) => {
          const next = count + cost
          await aMoment()
          count = next
          return { isCharged: true, count: next, resetsAtSeconds: nowSeconds + timeSlotSeconds }
        }
      }
    }
  ],
  [
    'adds 1 whatever the cost',
    'adds the cost of a charge, also one of more than 32 bits',
    'A charge adds its cost, an integer of up to 53 bits',
    asking('chargeQuota', (charge) => [{ ...charge, cost: 1 }])
  ],
  [
    'counts users and strangers in one bound',
    "lets strangers' quotas push out no user's",
    "No number of anonymous quotas makes a store forget a user's",
    asking('chargeQuota', (charge) => [{ ...charge, kind: 'request', key: `${charge.kind} ${charge.key}` }])
  ]
]

type Verb = Exclude<keyof Store, 'ping' | 'close'>
type Answer<V extends Verb> = Awaited<ReturnType<Store[V]>>
type Call = (...args: unknown[]) => Promise<unknown>

/** Another answer in place of the one of a verb. */
function answering<V extends Verb>(
  verb: V,
  change: (answer: Answer<V>, args: Parameters<Store[V]>, store: Store) => Answer<V> | Promise<Answer<V>>
): Fault {
  return (store) => ({
    [verb]: async (...args: Parameters<Store[V]>) =>
      change((await (store[verb] as Call)(...args)) as Answer<V>, args, store)
  })
}

/** Other arguments in place of those of a verb. */
function asking<V extends Verb>(verb: V, change: (...args: Parameters<Store[V]>) => Parameters<Store[V]>): Fault {
  return (store) => ({ [verb]: (...args: Parameters<Store[V]>) => (store[verb] as Call)(...change(...args)) })
}

/** A rotation that asks `judge` first, and the good store where that has no answer. */
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
 * Sessions of which one is hidden when another comes, where the store is full, or a user has 50: deletion is no verb of
 * the port.
 *
 * @param options - `isSlow`: it counts a moment before it adds
 */
function evicting(
  choose: (sessions: NewSession[]) => NewSession | undefined,
  options: { ofUser?: boolean; isSlow?: boolean } = {}
): Fault {
  return (_store, { maxSessions = 1000 }) => {
    // Each session gets a user of its own there, so that the bound of 50 does not count.
    const store = memoryStore()
    let kept: NewSession[] = []
    const of = (service: string, did: string): NewSession[] =>
      kept.filter((one) => one.service === service && one.did === did)
    const findSession = async (service: string, id: string): Promise<StoredSession | undefined> =>
      kept.some((one) => one.service === service && one.sessionId === id) ? store.findSession(service, id) : undefined
    return {
      findSession,
      rotateRefreshToken: (rotation) => store.rotateRefreshToken(rotation),
      listSessions: async (service, did) => {
        const found = await Promise.all(of(service, did).map(({ sessionId }) => findSession(service, sessionId)))
        return found.reverse().filter((one) => one !== undefined)
      },
      createSession: async (session) => {
        const others = options.ofUser === true ? of(session.service, session.did) : kept
        if (options.isSlow === true) await aMoment()
        const isFull = others.length >= (options.ofUser === true ? 50 : maxSessions)
        const victim = isFull ? choose(others) : undefined
        kept = [...kept.filter((one) => one !== victim), session]
        await store.createSession({ ...session, did: `${session.did}#${session.sessionId}` })
        return isFull && options.ofUser !== true ? 1 : 0
      }
    }
  }
}

/** A moment in which other calls go on, as between a read and a write. */
function aMoment(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

/** Whether the token presented is one that the session remembers as replaced. */
function presentsReplaced(session: StoredSession, { presentedHash }: Rotation): boolean {
  return session.replacedTokens.some(({ hash }) => presentedHash.startsWith(hash))
}

function isWithinGrace({ rotatedAtSeconds }: StoredSession, { nowSeconds, graceSeconds }: Rotation): boolean {
  return nowSeconds - rotatedAtSeconds <= graceSeconds
}
