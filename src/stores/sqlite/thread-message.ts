import type { Request } from './group-commit.js'

/** Verbs, and for how many milliseconds the first of them has waited already. */
export type Batch = readonly [waitedMilliseconds: number, ...requests: Request[]]

/** What a thread answers to a verb: its number with the result, or with what is left of an error. */
export type Reply = readonly [id: number, result: unknown, failure?: Failure]

/** An error as it crosses threads. */
export interface Failure {
  readonly message: string
  readonly code: string
}

/** Asks a thread to close its database and end. Other messages are lists of verbs. */
export const CLOSE = 'close'

/** Makes an error of a failure. */
export function toError({ message, code }: Failure): Error {
  return Object.assign(new Error(message), { code })
}
