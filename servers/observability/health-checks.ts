import type { RequestHandler, Response } from 'express'
import { separateUser, waitAtMost, within } from 'express-did-auth/server-kit'
import { describeReason } from '../config/startup-error.js'

const CHECK_MILLISECONDS = 1_800
/** How long an answer is reused, so that frequent checks cost the dependencies nothing. */
const FRESH_MILLISECONDS = 500
/** The same for a good answer of the server's own storage, which is asked by a write. */
export const FRESH_WRITE_MILLISECONDS = 5_000

/** A dependency, and whether the server needs it. */
export interface Dependency {
  name: string
  isNeeded: boolean
  check: (signal: AbortSignal) => Promise<unknown>
  /** Time for which a success is reused, unless a request fails meanwhile. Default 500 ms, as for failures. */
  freshMilliseconds?: number
  /** Name of its failure. Default `unavailable`. */
  failure?: 'unavailable' | 'wrong' | 'jumped'
  /** Name of its success. Default `ok`; `none` if no such dependency is configured. */
  success?: 'ok' | 'none'
  /** Whether the reason of its failure is listed although it is not needed: one that quotes no secret. */
  showsReason?: boolean
}

export interface ReadinessOptions {
  draining?: AbortSignal | undefined
  /** Whether requests are not served yet. */
  isStarting?: boolean
  /** Called when a needed dependency has become unavailable, with the reason of each. */
  onNotReady?: (reasons: Readonly<Record<string, string>>) => void
  nowMilliseconds?: () => number
}

/** Answers `GET /health`: the process is alive. No dependency is checked. */
export const answerHealth: RequestHandler = (_req, res) => {
  sendState(res, { status: 'ok' })
}

/** Sends a state whatever `If-None-Match` says. Express answers 304 to `*`, which monitors take for a failure. */
function sendState(res: Response, state: object): void {
  res.set('Cache-Control', 'no-store').type('json').end(JSON.stringify(state))
}

/**
 * Creates `GET /ready`: every dependency with its state, within 2 s. It is 503 while the server starts or drains, and
 * if a needed dependency is unavailable, with the reason. The server works without the others: taking it out of
 * service would not help.
 *
 * @returns `watchFailures` belongs before the routes: after a response of 503, `/ready` checks again
 */
export function createReadiness(
  dependencies: readonly Dependency[],
  { draining, isStarting, onNotReady, nowMilliseconds = () => performance.now() }: ReadinessOptions = {}
): { answer: RequestHandler; watchFailures: RequestHandler } {
  /** Result of the last check of each dependency: the reason of its failure, if there is one. */
  const asked = new Map<Dependency, { reason: Promise<string | undefined>; askedAt: number; freshUntil: number }>()
  let wasReady = true

  const reasonNow = (dependency: Dependency): Promise<string | undefined> => {
    const known = asked.get(dependency)
    const askedAt = nowMilliseconds()
    if (known !== undefined && askedAt < known.freshUntil) return known.reason
    const current = { reason: findReasonAgainst(dependency), askedAt, freshUntil: Infinity }
    asked.set(dependency, current)
    void current.reason.then((reason) => {
      const fresh = reason === undefined ? dependency.freshMilliseconds : undefined
      current.freshUntil = nowMilliseconds() + (fresh ?? FRESH_MILLISECONDS)
    })
    return current.reason
  }

  const answer: RequestHandler = async (_req, res) => {
    const states: Record<string, string> = {}
    const reasons: Record<string, string> = {}
    let isReady = true
    const found = await Promise.all(dependencies.map(reasonNow))
    for (const [index, dependency] of dependencies.entries()) {
      const { name, isNeeded, success = 'ok', failure = 'unavailable', showsReason = failure === 'jumped' } = dependency
      const reason = found[index]
      states[name] = reason === undefined ? success : failure
      if (reason === undefined) continue
      if (isNeeded) isReady = false
      if (isNeeded || showsReason) reasons[name] = reason
    }
    if (wasReady && !isReady) onNotReady?.(reasons)
    wasReady = isReady
    const ownState = draining?.aborted === true ? 'draining' : isStarting === true ? 'starting' : undefined
    const status = ownState ?? (isReady ? 'ready' : 'not ready')
    res.status(status === 'ready' ? 200 : 503)
    sendState(res, { status, dependencies: states, ...(Object.keys(reasons).length > 0 && { reasons }) })
  }

  const watchFailures: RequestHandler = (_req, res, next) => {
    res.once('finish', () => {
      if (res.statusCode !== 503) return
      // Checks are not repeated at once: a client that alternates failures and `/ready` must not cause a write each.
      for (const one of asked.values()) one.freshUntil = Math.min(one.freshUntil, one.askedAt + FRESH_MILLISECONDS)
    })
    next()
  }
  return { answer, watchFailures }
}

async function findReasonAgainst({ check }: Dependency): Promise<string | undefined> {
  try {
    await within(CHECK_MILLISECONDS, check(AbortSignal.timeout(CHECK_MILLISECONDS)))
    return undefined
  } catch (error) {
    return describeReason(error)
  }
}

/** Asks an RPC node for its chain id: hexadecimal with `0x`, as it answers it. */
export async function askChainId(rpcUrl: string, signal: AbortSignal): Promise<string> {
  const { url, headers } = separateUser(rpcUrl)
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] }),
    signal
  })
  const answer: unknown = await response.json()
  if (typeof answer !== 'object' || answer === null || !('result' in answer)) throw new Error('no JSON-RPC answer')
  return String(answer.result)
}

/** Time limit for reading another clock. It is less than the limit of a whole check. */
const CLOCK_MILLISECONDS = 1_500
/** Time for which a jump of the clock is reported. */
const REPORTED_SECONDS = 600

/** Reads another clock, in seconds since the Unix epoch. */
export type ReferenceClock = () => Promise<number>

/** Creates a check of the wall clock. It rejects if the clock differs from another by more than `maxSkewSeconds`. */
export function createClockCheck(
  { name, read }: { name: string; read: ReferenceClock },
  maxSkewSeconds: number,
  nowSeconds = (): number => Date.now() / 1_000
): () => Promise<void> {
  return async () => {
    const before = nowSeconds()
    const reference = await waitAtMost(CLOCK_MILLISECONDS, read()).catch(() => undefined)
    // The engine with that clock is a dependency of its own.
    if (reference === undefined) return
    // The reference was read at some moment between the two readings.
    const difference = reference < before ? before - reference : Math.min(0, nowSeconds() - reference)
    if (Math.abs(difference) <= maxSkewSeconds) return
    const side = difference > 0 ? 'ahead of' : 'behind'
    throw new Error(`${Math.round(Math.abs(difference))} s ${side} ${name}`)
  }
}

/** Creates a clock that no correction moves, for a single server. A jump of the wall clock shows for ten minutes. */
export function createSteadyClock(
  nowSeconds = (): number => Date.now() / 1_000,
  monotonicSeconds = (): number => performance.now() / 1_000
): ReferenceClock {
  const set = (): { wall: number; steady: number } => ({ wall: nowSeconds(), steady: monotonicSeconds() })
  let older = set()
  let newer = older
  return () => {
    if (monotonicSeconds() - newer.steady >= REPORTED_SECONDS) [older, newer] = [newer, set()]
    return Promise.resolve(older.wall + monotonicSeconds() - older.steady)
  }
}
