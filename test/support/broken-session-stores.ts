import type { NewSession, Store } from '../../src/ports.js'
import type { StoredSession } from '../../src/protocol/session.js'
import { aMoment, HideableSessions, presentsReplaced, type BrokenStore } from './broken-store.js'

/** Stores whose sessions are wrong in one way each. */
export const brokenSessionStores: BrokenStore[] = [
  {
    fault: 'knows sessions of another service',
    fails: "keeps each service's sessions to itself, also those with the same ids and tokens",
    says: "A service sees and changes none of another service's sessions",
    verbs: (store) => {
      let last = ''
      return {
        createSession: (session) => {
          last = session.service
          return store.createSession(session)
        },
        findSession: (_service, sessionId) => store.findSession(last, sessionId)
      }
    }
  },
  {
    fault: 'tells spellings of a DID apart',
    fails: 'keeps the DID as received and knows the user by its lower-case spelling',
    says: 'All spellings of a DID are one user, whose sessions are listed together',
    verbs: (store) => ({
      listSessions: async (service, user, nowSeconds) =>
        (await store.listSessions(service, user, nowSeconds)).filter(({ did }) => did === user)
    })
  },
  {
    fault: 'gives away the objects that it keeps',
    fails: 'stores and answers copies, which a caller cannot change it through',
    says: 'A session does not change when objects that were passed or answered change',
    verbs: (store) => {
      const given = new Map<string, StoredSession | undefined>()
      return {
        findSession: async (service, sessionId) => {
          if (!given.has(sessionId)) given.set(sessionId, { ...(await store.findSession(service, sessionId))! })
          return given.get(sessionId)
        }
      }
    }
  },
  {
    fault: 'lists the oldest session first',
    fails: "lists a user's active sessions, the newest first, until they end",
    says: 'Active sessions of the user alone are listed, the one created last first',
    verbs: (store) => ({
      listSessions: async (...args) => (await store.listSessions(...args)).reverse()
    })
  },
  {
    fault: 'lists a session in the second in which it expires',
    fails: "lists a user's active sessions, the newest first, until they end",
    says: 'A session is not listed from the second on in which it expires',
    verbs: (store) => ({
      listSessions: (service, user, nowSeconds) => store.listSessions(service, user, nowSeconds - 1)
    })
  },
  {
    fault: 'ends a session twice',
    fails: 'ends an active session once, and its state never changes after',
    says: 'Ending answers true for a session that was active, else false',
    verbs: (store) => ({
      endSession: async (service, sessionId, ...args) => {
        await store.endSession(service, sessionId, ...args)
        return (await store.findSession(service, sessionId)) !== undefined
      }
    })
  },
  {
    fault: 'counts the sessions of a user before it adds one',
    fails: 'keeps the last 50 sessions of a user, also when 60 come at once, twice',
    says: 'A user has 50 sessions once all 60 of the first burst were answered',
    verbs: () => {
      const kept = new HideableSessions()
      return {
        ...kept.verbs(),
        createSession: async (session) => {
          const own = kept.ofUser(session)
          await aMoment()
          if (own.length >= 50) kept.hide(own[0])
          await kept.create(session)
          return 0
        }
      }
    }
  },
  {
    fault: 'drops the newest session of a user who has 50',
    fails: 'keeps 50 sessions of a user and drops the oldest when another comes',
    says: 'The 50 sessions of a user that were created last are listed, the newest first',
    verbs: () => {
      const kept = new HideableSessions()
      return {
        ...kept.verbs(),
        createSession: async (session) => {
          const own = kept.ofUser(session)
          if (own.length >= 50) kept.hide(own.at(-1))
          await kept.create(session)
          return 0
        }
      }
    }
  },
  {
    fault: 'evicts the session created first, also when it was refreshed',
    fails: 'evicts sessions that were never refreshed, the oldest first, and counts them',
    says: 'A full store evicts no refreshed session while there are others',
    verbs: (_store, { maxSessions = 1000 }) => evicting(maxSessions, ([first]) => first)
  },
  {
    fault: 'evicts the session created last',
    fails: 'evicts sessions that were never refreshed, the oldest first, and counts them',
    says: 'A full store evicts the oldest of the sessions that were never refreshed',
    verbs: (_store, { maxSessions = 1000 }) => evicting(maxSessions, (sessions) => sessions.at(-1))
  },
  {
    fault: 'says nothing of the sessions that it evicts',
    fails: 'evicts sessions that were never refreshed, the oldest first, and counts them',
    says: 'Creating a session answers how many active ones were evicted for it',
    verbs: (store) => ({
      createSession: async (session) => {
        await store.createSession(session)
        return 0
      }
    })
  },
  {
    fault: 'counts an ended session as evicted',
    fails: 'counts neither ended nor expired sessions as evicted',
    says: 'Only sessions that were active count as evicted',
    verbs: (store, { maxSessions = 1000 }) => {
      let count = 0
      return {
        createSession: async (session) => {
          await store.createSession(session)
          count += 1
          return count > maxSessions ? 1 : 0
        }
      }
    }
  },
  {
    fault: 'remembers replaced tokens of all sessions up to one bound, as the memory store of version 0.1',
    fails: "forgets no replaced token of a session for the sake of strangers' sessions and refreshes",
    says: 'A replaced token that comes back is noticed, however much strangers do',
    verbs: (store, { maxSessions = 1000 }) => {
      const remembered: string[] = []
      return {
        rotateRefreshToken: async (rotation) => {
          const session = await store.findSession(rotation.service, rotation.sessionId)
          const isReplaced = session !== undefined && presentsReplaced(session, rotation)
          if (isReplaced && !remembered.includes(rotation.presentedHash)) return 'unknown'
          if (!isReplaced) remembered.push(rotation.presentedHash)
          if (remembered.length > maxSessions) remembered.shift()
          return store.rotateRefreshToken(rotation)
        }
      }
    }
  }
]

function evicting(maxSessions: number, choose: (sessions: NewSession[]) => NewSession | undefined): Partial<Store> {
  const kept = new HideableSessions()
  return {
    ...kept.verbs(),
    createSession: async (session) => {
      const isFull = kept.sessions.length >= maxSessions
      if (isFull) kept.hide(choose(kept.sessions))
      await kept.create(session)
      return isFull ? 1 : 0
    }
  }
}
