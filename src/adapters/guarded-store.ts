import { DidAuthError } from '../errors.js'
import type { Deadline, Store } from '../ports.js'

const STORE_SECONDS = 5
const RETRY_AFTER_SECONDS = 5

const verbs = [
  'createSession',
  'findSession',
  'rotateRefreshToken',
  'endSession',
  'revokeSessions',
  'listSessions',
  'countChallengeUses',
  'useChallenge',
  'chargeQuota',
  'ping'
] as const satisfies readonly (keyof Store)[]

/** A store of the application whose every failure, and every silence of 5 s, is the one error that is answered 503. */
export function guardedStore(store: Store, deadline: Deadline): Store {
  const expired = (): Error => new Error(`the store took longer than ${String(STORE_SECONDS)} s`)
  const guarded = Object.fromEntries(
    verbs.map((verb) => {
      const run = store[verb].bind(store) as (...args: unknown[]) => Promise<unknown>
      const call = async (...args: unknown[]): Promise<unknown> => {
        try {
          return await deadline.within(STORE_SECONDS, () => run(...args), expired)
        } catch (cause) {
          throw new DidAuthError('ERR_STORE', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
        }
      }
      return [verb, call]
    })
  )
  return { ...(guarded as unknown as Store), close: () => store.close() }
}
