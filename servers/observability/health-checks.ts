import type { Request, RequestHandler, Response } from 'express'
import { separateUser, waitAtMost, within } from 'express-did-auth/server-kit'
import { describeReason } from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'

const { dependencyCheck: CHECK_MILLISECONDS } = limitMilliseconds
/** Time for which a result is reused, so that frequent requests put no load on the dependencies. */
const FRESH_MILLISECONDS = 500
/** Time for which a success of the server's own storage is reused, because its check writes to the disk. */
export const FRESH_WRITE_MILLISECONDS = 5_000

/** Dependency of a server that `/ready` checks. */
export interface Dependency {
  name: string
  isNeeded: boolean
  check: (signal: AbortSignal) => Promise<unknown>
  /** Time for which a success is reused, unless a request gets 503 meanwhile. Default 500 ms, as for failures. */
  freshMilliseconds?: number
  /** State after a failure. Default `unavailable`. */
  failure?: 'unavailable' | 'wrong' | 'jumped'
  /** State after a success. Default `ok`; `none` if the dependency is not configured. */
  success?: 'ok' | 'none'
  /** Whether the reason of a failure is shown although the dependency is not needed. It must not quote secrets. */
  showsReason?: boolean
}

/** Result of the checks of all dependencies. */
export interface ReadinessState {
  status: 'ready' | 'not ready' | 'starting' | 'draining'
  /** Whether all needed dependencies are available. */
  isReady: boolean
  /** Dependencies with the reason of a failure. */
  states: readonly (Dependency & { reason: string | undefined })[]
}

export interface ReadinessOptions {
  draining?: AbortSignal | undefined
  /** Whether requests are not served yet. */
  isStarting?: boolean
  /** Called with all reasons when a needed dependency becomes unavailable. */
  onNotReady?: (reasons: Readonly<Record<string, string>>, req: Request) => void
  nowMilliseconds?: () => number
}

/** Answers `GET /health` with 200, without checking dependencies. */
export const answerHealth: RequestHandler = (_req, res) => {
  sendState(res, { status: 'ok' })
}

/** Sends a state regardless of `If-None-Match`. Express would answer 304 to `*`, which monitors count as a failure. */
function sendState(res: Response, state: object): void {
  res.set('Cache-Control', 'no-store').type('json').end(JSON.stringify(state))
}

/**
 * Creates `GET /ready`, which answers with the state of every dependency within 2 s. The status is 503 while the server
 * starts or drains, and if a needed dependency is unavailable. Other dependencies do not change the status, because the
 * server works without them.
 *
 * @returns `read` returns the state for metrics. `checkAgain` is called after a response of 503, so that `/ready` soon
 *   checks again
 */
export function createReadiness(
  dependencies: readonly Dependency[],
  { draining, isStarting, onNotReady, nowMilliseconds = () => performance.now() }: ReadinessOptions = {}
): { answer: RequestHandler; read: () => Promise<ReadinessState>; checkAgain: () => void } {
  /** Last check of each dependency. Its result is the reason of a failure, or undefined. */
  const checks = new Map<Dependency, { reason: Promise<string | undefined>; checkedAt: number; freshUntil: number }>()
  let wasReady = true

  const findReason = (dependency: Dependency): Promise<string | undefined> => {
    const lastCheck = checks.get(dependency)
    const checkedAt = nowMilliseconds()
    if (lastCheck !== undefined && checkedAt < lastCheck.freshUntil) return lastCheck.reason
    const current = { reason: checkDependency(dependency), checkedAt, freshUntil: Infinity }
    checks.set(dependency, current)
    void current.reason.then((reason) => {
      const fresh = reason === undefined ? dependency.freshMilliseconds : undefined
      current.freshUntil = nowMilliseconds() + (fresh ?? FRESH_MILLISECONDS)
    })
    return current.reason
  }

  const read = async (): Promise<ReadinessState> => {
    const findState = async (dependency: Dependency) => ({ ...dependency, reason: await findReason(dependency) })
    const states = await Promise.all(dependencies.map(findState))
    const isReady = !states.some(({ isNeeded, reason }) => isNeeded && reason !== undefined)
    const ownState = draining?.aborted === true ? 'draining' : isStarting === true ? 'starting' : undefined
    return { states, isReady, status: ownState ?? (isReady ? 'ready' : 'not ready') }
  }

  const answer: RequestHandler = async (req, res) => {
    const { states, isReady, status } = await read()
    const shownStates: Record<string, string> = {}
    const reasons: Record<string, string> = {}
    for (const { name, isNeeded, reason, success = 'ok', failure = 'unavailable', ...shown } of states) {
      shownStates[name] = reason === undefined ? success : failure
      const { showsReason = failure === 'jumped' } = shown
      if (reason !== undefined && (isNeeded || showsReason)) reasons[name] = reason
    }
    if (wasReady && !isReady) onNotReady?.(reasons, req)
    wasReady = isReady
    res.status(status === 'ready' ? 200 : 503)
    sendState(res, { status, dependencies: shownStates, ...(Object.keys(reasons).length > 0 && { reasons }) })
  }

  const checkAgain = (): void => {
    // Each check may write. So a client that alternates failures and `/ready` must not cause a check each time.
    for (const check of checks.values()) {
      check.freshUntil = Math.min(check.freshUntil, check.checkedAt + FRESH_MILLISECONDS)
    }
  }
  return { answer, read, checkAgain }
}

async function checkDependency({ check }: Dependency): Promise<string | undefined> {
  try {
    await within(CHECK_MILLISECONDS, check(AbortSignal.timeout(CHECK_MILLISECONDS)))
    return undefined
  } catch (error) {
    return describeReason(error)
  }
}

/** Requests the chain id of an RPC node, which is hexadecimal with `0x`. */
export async function fetchChainId(rpcUrl: string, signal: AbortSignal): Promise<string> {
  const { url, headers } = separateUser(rpcUrl)
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] }),
    signal
  })
  const answer: unknown = await response.json()
  if (typeof answer !== 'object' || answer === null || !('result' in answer)) throw new Error('no JSON-RPC response')
  return String(answer.result)
}

/** Time for which a jump of the wall clock is reported. */
const REPORTED_SECONDS = 600

/** Clock to compare the wall clock with, in seconds since the Unix epoch. */
export type ReferenceClock = () => Promise<number>

/** Creates a check that rejects if the wall clock differs from the reference by more than `maxSkewSeconds`. */
export function createClockCheck(
  { name, read }: { name: string; read: ReferenceClock },
  maxSkewSeconds: number,
  nowSeconds = (): number => Date.now() / 1_000
): () => Promise<void> {
  return async () => {
    const before = nowSeconds()
    const reference = await waitAtMost(limitMilliseconds.clockRead, read()).catch(() => undefined)
    // The reference clock belongs to an engine whose availability is checked separately.
    if (reference === undefined) return
    // The reference was read at some time between the two readings of the wall clock.
    const difference = reference < before ? before - reference : Math.min(0, nowSeconds() - reference)
    if (Math.abs(difference) <= maxSkewSeconds) return
    const side = difference > 0 ? 'ahead of' : 'behind'
    throw new Error(`${Math.round(Math.abs(difference))} s ${side} ${name}`)
  }
}

/** Creates a reference clock from the monotonic clock, for a single server. It shows a jump for ten minutes. */
export function createSteadyClock(
  nowSeconds = (): number => Date.now() / 1_000,
  monotonicSeconds = (): number => performance.now() / 1_000
): ReferenceClock {
  const readBoth = (): { wall: number; steady: number } => ({ wall: nowSeconds(), steady: monotonicSeconds() })
  let older = readBoth()
  let newer = older
  return () => {
    if (monotonicSeconds() - newer.steady >= REPORTED_SECONDS) [older, newer] = [newer, readBoth()]
    return Promise.resolve(older.wall + monotonicSeconds() - older.steady)
  }
}
