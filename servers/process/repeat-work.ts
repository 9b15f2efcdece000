import { waitAtMost } from 'express-did-auth/server-kit'

const MINUTE_MILLISECONDS = 60_000
/** How long a stop waits for work in progress. */
const STOP_MILLISECONDS = 3_000
/** How long work that is due soon waits for more reasons to do it. */
const SOON_MILLISECONDS = 1_000
/** Which part of a minute may be added, so that processes that start together do not work together. */
const JITTER = 0.2

/** Work that repeats. */
export interface RepeatedWork {
  /** Works within a second, or within a second after work in progress. */
  soon(): void
  /** Ends it. Resolves when nothing is under way, or after 3 s. */
  stop(): Promise<void>
}

/** Runs work now and about every minute, never twice at once. The signal asks it to stop; it keeps no process alive. */
export function repeatWork(
  work: (signal: AbortSignal) => Promise<void>,
  onFailure: (error: unknown) => void
): RepeatedWork {
  const stopping = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let isWorking = false
  /** How often it was asked for soon, since it began last. */
  let asked = 0
  const runIn = (milliseconds: number): void => {
    clearTimeout(timer)
    timer = setTimeout(() => {
      underWay = run()
    }, milliseconds).unref()
  }
  const run = async (): Promise<void> => {
    isWorking = true
    asked = 0
    await work(stopping.signal).catch((error: unknown) => {
      if (!stopping.signal.aborted) onFailure(error)
    })
    isWorking = false
    if (stopping.signal.aborted) return
    runIn(asked > 0 ? SOON_MILLISECONDS : MINUTE_MILLISECONDS * (1 + JITTER * Math.random()))
  }
  let underWay = run()
  return {
    soon: () => {
      asked += 1
      if (asked === 1 && !isWorking && !stopping.signal.aborted) runIn(SOON_MILLISECONDS)
    },
    stop: async () => {
      stopping.abort()
      clearTimeout(timer)
      // Work that waits for something unavailable is left behind: it is safe to end anywhere.
      await waitAtMost(STOP_MILLISECONDS, underWay)
    }
  }
}
