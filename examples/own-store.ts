/** A custom store is an object with the methods of `Store`. This one measures the methods of another store. */
import { memoryStore, type Store } from 'express-did-auth'
import { storeContract } from 'express-did-auth/testing'

/** Forwards calls to `store`, and calls `onVerb` with the duration of each call in milliseconds. */
export function measuredStore(store: Store, onVerb: (verb: keyof Store, milliseconds: number) => void): Store {
  const measured = async <T>(verb: keyof Store, run: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now()
    try {
      return await run()
    } finally {
      onVerb(verb, performance.now() - startedAt)
    }
  }
  return {
    createSession: (session) => measured('createSession', () => store.createSession(session)),
    findSession: (...key) => measured('findSession', () => store.findSession(...key)),
    rotateRefreshToken: (rotation) => measured('rotateRefreshToken', () => store.rotateRefreshToken(rotation)),
    endSession: (...end) => measured('endSession', () => store.endSession(...end)),
    revokeSessions: (...whose) => measured('revokeSessions', () => store.revokeSessions(...whose)),
    listSessions: (...whose) => measured('listSessions', () => store.listSessions(...whose)),
    countChallengeUses: (key) => measured('countChallengeUses', () => store.countChallengeUses(key)),
    consumeChallenge: (use) => measured('consumeChallenge', () => store.consumeChallenge(use)),
    chargeQuota: (charge) => measured('chargeQuota', () => store.chargeQuota(charge)),
    ping: () => measured('ping', () => store.ping()),
    close: () => measured('close', () => store.close())
  }
}

/** The test suite for stores. In a test file: `for (const { name, run } of contract) it(name, run)`. */
export const contract = storeContract((bounds) => measuredStore(memoryStore(bounds), () => undefined))
