import { isObject } from '../../protocol/json.js'
import type { Request } from './group-commit.js'
import type { StoreBounds } from './session-database.js'
import type { EngineName } from './sqlite-engine.js'

/** What a worker is started with. */
export interface WorkerSettings {
  readonly file: string
  readonly engine: EngineName
  readonly bounds: StoreBounds
  /** As of `SweepClock`; undefined: its default. */
  readonly sustainedSeconds?: number | undefined
}

/** What a worker answers to a verb: its number with the result, or with what is left of an error. */
export type Reply = readonly [id: number, result: unknown] | readonly [id: number, result: null, failure: Failure]

/** An error as it crosses threads. */
export interface Failure {
  readonly message: string
  readonly code: string
}

/** Asks a worker to close its database and end. Other messages are lists of verbs, as JSON: cheaper than cloning them. */
export const CLOSE = 'close'

/** Verbs, and for how many milliseconds the first of them has waited already. */
export type Batch = readonly [waitedMilliseconds: number, ...requests: Request[]]

/** Reads a message with verbs. */
export function parseBatch(message: string): Batch {
  return JSON.parse(message) as Batch
}

/** Makes an error of a failure. */
export function toError({ message, code }: Failure): Error {
  return Object.assign(new Error(message), { code })
}

/** Reads what a worker was started with. */
export function parseSettings(workerData: unknown): WorkerSettings {
  return workerData as WorkerSettings
}

/** Reads a message with the replies of a worker: JSON, or cloned. */
export function parseReplies(message: string | Reply[]): Reply[] {
  return typeof message === 'string' ? (JSON.parse(message) as Reply[]) : message
}

/** The clock's time in the arguments of a verb: a field of the first. */
export function parseNowSeconds([first]: readonly unknown[]): number | undefined {
  return isObject(first) && typeof first.nowSeconds === 'number' ? first.nowSeconds : undefined
}
