import { memoryStore, type Store } from 'express-did-auth'

/** A verb that every store has. */
export type StoreVerb = keyof Store

/** A memory store of which one verb fails while it is told to. */
export function breakableStore(verb: StoreVerb): { store: Store; state: { isBroken: boolean } } {
  const store = memoryStore()
  const works = store[verb].bind(store) as (...args: unknown[]) => Promise<unknown>
  const state = { isBroken: false }
  Object.assign(store, {
    [verb]: async (...args: unknown[]) => {
      if (state.isBroken) throw new Error('connection refused by 10.0.0.7')
      return works(...args)
    }
  })
  return { store, state }
}
