import type { Rotation, Store } from '../../src/ports.js'
import type { RefreshVerdict, StoredSession } from '../../src/protocol/session.js'
import { aMoment, presentsReplaced, type BrokenStore } from './broken-store.js'

/** Stores whose refresh tokens are wrong in one way each. */
export const brokenRotationStores: BrokenStore[] = [
  {
    fault: 'looks at the token, and writes a moment later',
    fails: 'lets exactly one of 50 win that use a token at once',
    says: 'Of 50 simultaneous rotations to different tokens exactly one rotates, and the others are refused',
    verbs: (store) =>
      rotating(store, async (session, rotation) => {
        if (session.refreshTokenHash !== rotation.presentedHash) return undefined
        await aMoment()
        await store.rotateRefreshToken(rotation)
        return 'rotate'
      })
  },
  {
    fault: 'is rejected by its database when two refresh one session, as by a deadlock',
    fails: 'lets one of 50 win that use the current and a replaced token of a session at once',
    says: 'None of 50 calls that come at once is rejected, as by a deadlock',
    verbs: (store) => {
      let current = ''
      return rotating(store, async (session, { sessionId }) => {
        if (current === sessionId && session.replacedTokens.length > 0) throw new Error('40P01')
        current = sessionId
        await aMoment()
        current = ''
        return undefined
      })
    }
  },
  {
    fault: 'forgets replaced tokens',
    fails: 'refuses a replaced token within the grace, and revokes its session after it',
    says: 'A replaced token is only refused up to 10 s after its replacement, with a grace of 10 s',
    verbs: (store) =>
      rotating(store, (session, rotation) => (presentsReplaced(session, rotation) ? 'unknown' : undefined))
  },
  {
    fault: 'remembers 15 replaced tokens',
    fails: 'remembers the last 16 replaced tokens of a session, and no older one',
    says: 'The last 16 replaced tokens of a session are remembered',
    verbs: (store) =>
      rotating(store, (session, rotation) =>
        presentsReplaced({ ...session, replacedTokens: session.replacedTokens.slice(15) }, rotation)
          ? 'unknown'
          : undefined
      )
  },
  {
    fault: 'counts the grace from the last rotation of the session',
    fails: "counts each replaced token's grace from its own replacement",
    says: 'A token replaced 5 s ago is refused and one replaced 15 s ago is reused, with a grace of 10 s',
    verbs: (store) =>
      rotating(store, (session, rotation) =>
        presentsReplaced(session, rotation) && rotation.nowSeconds - session.rotatedAtSeconds <= rotation.graceSeconds
          ? 'replaced'
          : undefined
      )
  },
  {
    fault: 'replaces a token in the second in which it expires',
    fails: 'replaces a token until the second in which it expires',
    says: 'A token is not replaced from the second on in which it expires',
    verbs: (store) => ({
      rotateRefreshToken: (rotation) => store.rotateRefreshToken({ ...rotation, nowSeconds: rotation.nowSeconds - 1 })
    })
  },
  {
    fault: 'keeps the claims of the login for ever',
    fails: 'sets the claims of the session with each rotation',
    says: 'A rotation replaces the claims of the session',
    verbs: (store) =>
      rotating(store, (session, rotation) =>
        store.rotateRefreshToken({ ...rotation, tokenClaims: session.tokenClaims })
      )
  },
  {
    fault: 'revokes a session whose rotation is repeated after the grace',
    fails: 'answers repeated, and changes nothing, when a rotation comes again',
    says: 'The same rotation is repeated on each instance, and at any time until the session ends',
    verbs: (store) =>
      rotating(store, async (session, rotation) => {
        const { service, sessionId, nowSeconds, graceSeconds } = rotation
        if (session.state !== 'active' || !presentsReplaced(session, rotation)) return undefined
        if (nowSeconds - session.rotatedAtSeconds <= graceSeconds) return undefined
        await store.endSession(service, sessionId, 'revoked', nowSeconds)
        return 'reused'
      })
  },
  {
    fault: 'moves the end of a session that repeats its rotation',
    fails: 'answers repeated, and changes nothing, when a rotation comes again',
    says: 'A repeated rotation changes neither claims nor times nor tokens',
    verbs: (store) => {
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
  },
  {
    fault: 'revokes a session for a late duplicate of an honest rotation',
    fails: 'refuses a rotation whose next token was used, and revokes nothing',
    says: 'A late duplicate of an honest rotation is only refused, also after the grace',
    verbs: (store) =>
      rotating(store, (session, rotation) =>
        session.refreshTokenHash === rotation.nextHash
          ? undefined
          : store.rotateRefreshToken({ ...rotation, nextHash: 'of no token' })
      )
  },
  {
    fault: 'repeats a rotation by time alone',
    fails: 'refuses a replaced token within the grace, and revokes its session after it',
    says: 'A replaced token is only refused up to 10 s after its replacement, with a grace of 10 s',
    verbs: (store) => ({
      rotateRefreshToken: async (rotation) => {
        const verdict = await store.rotateRefreshToken(rotation)
        return verdict === 'replaced' ? 'repeated' : verdict
      }
    })
  },
  {
    fault: 'repeats a rotation for a client that knows the next token only',
    fails: 'answers unknown for a token that it never saw, and changes nothing',
    says: 'A token of no session, or of another one, is unknown, whatever it asks to be replaced by',
    verbs: (store) =>
      rotating(store, (session, { nextHash }) => (session.refreshTokenHash === nextHash ? 'repeated' : undefined))
  },
  {
    fault: 'answers rotate to each of 50 repeated rotations',
    fails: 'rotates once, and repeats it for all others, when 50 come with one next token',
    says: 'Of 50 simultaneous rotations to one next token exactly one rotates, and the others are repeated',
    verbs: (store) => ({
      rotateRefreshToken: async (rotation) => {
        const verdict = await store.rotateRefreshToken(rotation)
        return verdict === 'repeated' ? 'rotate' : verdict
      }
    })
  },
  {
    fault: 'counts the grace from the last time that a rotation was repeated',
    fails: 'notices another who has the replaced token, however often it was repeated',
    says: 'The grace runs from the replacement, not from a repeated rotation',
    verbs: (store) => {
      let repeatedAt = 0
      return rotating(store, (session, rotation) => {
        if (session.state !== 'active' || !presentsReplaced(session, rotation)) return undefined
        if (session.refreshTokenHash === rotation.nextHash) repeatedAt = rotation.nowSeconds
        else if (rotation.nowSeconds - repeatedAt <= rotation.graceSeconds) return 'replaced'
        return undefined
      })
    }
  },
  {
    fault: 'logs out and lets a refresh that began before go on',
    fails: 'refreshes nothing after a logout was answered, whichever was faster',
    says: 'No token of a session is good once its logout was answered',
    verbs: (store) => {
      const running = new Set<string>()
      return {
        rotateRefreshToken: async (rotation) => {
          running.add(rotation.sessionId)
          await aMoment()
          const verdict = await store.rotateRefreshToken(rotation)
          running.delete(rotation.sessionId)
          return verdict
        },
        endSession: async (service, sessionId, state, nowSeconds) =>
          running.has(sessionId) || store.endSession(service, sessionId, state, nowSeconds)
      }
    }
  }
]

/** A rotation that asks `judge` first, and the good store where that has no answer. */
function rotating(
  store: Store,
  judge: (
    session: StoredSession,
    rotation: Rotation
  ) => RefreshVerdict | undefined | Promise<RefreshVerdict | undefined>
): Pick<Store, 'rotateRefreshToken'> {
  return {
    rotateRefreshToken: async (rotation) => {
      const session = await store.findSession(rotation.service, rotation.sessionId)
      return (session && (await judge(session, rotation))) ?? store.rotateRefreshToken(rotation)
    }
  }
}
