import { storeVerbs, type Store, type StorePart, type StoreVerb } from '../ports.js'

/**
 * Creates the verbs of a part of a store, which all call one function. A new verb of the port then needs no line in a
 * store that only forwards calls.
 *
 * @param call - receives the name of the verb and its arguments, and returns the promise of the verb
 */
export function forwardVerbs<P extends StorePart>(
  part: P,
  call: (verb: StoreVerb<P>, args: readonly unknown[]) => unknown
): Pick<Store, StoreVerb<P>> {
  const names: readonly StoreVerb<P>[] = storeVerbs[part]
  const verbs = names.map((verb) => [verb, (...args: unknown[]) => call(verb, args)])
  // The object has a function for each name. `call` returns what the port promises.
  return Object.fromEntries(verbs) as Pick<Store, StoreVerb<P>>
}

/** Calls a verb by its name. */
export function callVerb<V extends string>(
  target: Readonly<Record<V, (...args: never[]) => unknown>>,
  verb: V,
  args: readonly unknown[]
): unknown {
  // The types of the port ensure that the arguments match the verb.
  return target[verb](...(args as never[]))
}
