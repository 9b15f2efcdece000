import { isObject } from '../../protocol/json.js'
import type { Request } from './group-commit.js'
import type { StoreBounds } from './session-database.js'
import type { EngineName } from './sqlite-engine.js'

/**
 * What a worker is there for: `durable` commits sessions and uses of challenges, and waits for the disk with each group;
 * `quick` reads, and counts quotas, which never waits for the disk. A database in memory has one for all.
 */
export type WorkerRole = 'durable' | 'quick' | 'all'

/** What a worker is started with. */
export interface WorkerSettings {
  readonly file: string
  readonly engine: EngineName
  readonly role: WorkerRole
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

/** Tells that the disk is full and quotas are counted in memory: once in the life of a worker. */
export const QUOTAS_IN_MEMORY = 'quotas-in-memory'

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

/** Whether a message is a word beside the replies, such as {@link QUOTAS_IN_MEMORY}. */
export function isNotice(message: string | Reply[]): message is string {
  return typeof message === 'string' && !message.startsWith('[')
}

/** Reads a message with the replies of a worker: JSON, or cloned. */
export function parseReplies(message: string | Reply[]): Reply[] {
  return typeof message === 'string' ? (JSON.parse(message) as Reply[]) : message
}

/** The clock's time in the arguments of a verb: a field of the first, or where that is a row, its begin. */
export function parseNowSeconds([first]: readonly unknown[]): number | undefined {
  if (Array.isArray(first)) return first[0] as number
  return isObject(first) && typeof first.nowSeconds === 'number' ? first.nowSeconds : undefined
}
