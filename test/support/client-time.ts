import { jest } from '@jest/globals'

/** Timeouts of the client that end when the test says so, and pauses that take no time. */
export interface ClientTime {
  /** Milliseconds of the pauses so far, of those that are skipped. */
  pauses: number[]
  /** Ends every timeout of so many milliseconds that has begun. */
  endTimeouts: (milliseconds: number) => void
}

/**
 * Makes the client's waits take no real time. The service's own waits are of other lengths, and are left alone. Undone by
 * `jest.restoreAllMocks()`.
 *
 * @param skipped - milliseconds of the pauses to skip
 */
export function fakeClientTime(...skipped: number[]): ClientTime {
  const pauses: number[] = []
  const timeouts: { milliseconds: number; controller: AbortController }[] = []
  const { setTimeout } = globalThis
  jest.spyOn(globalThis, 'setTimeout').mockImplementation((run: () => void, milliseconds?: number) => {
    if (milliseconds === undefined || !skipped.includes(milliseconds)) return setTimeout(run, milliseconds)
    pauses.push(milliseconds)
    return setTimeout(run, 0)
  })
  jest.spyOn(AbortSignal, 'timeout').mockImplementation((milliseconds) => {
    const controller = new AbortController()
    timeouts.push({ milliseconds, controller })
    return controller.signal
  })
  return {
    pauses,
    endTimeouts(wanted) {
      for (const { milliseconds, controller } of timeouts) {
        if (milliseconds === wanted) controller.abort(new DOMException('The operation timed out', 'TimeoutError'))
      }
    }
  }
}

/** Locks as a browser's `navigator.locks` gives them: by name, one after the other. */
export function fakeLocks(): { request: <T>(name: string, run: () => Promise<T>) => Promise<T> } {
  const last = new Map<string, Promise<unknown>>()
  return {
    request(name, run) {
      const turn = (last.get(name) ?? Promise.resolve()).then(run, run)
      last.set(
        name,
        turn.catch(() => undefined)
      )
      return turn
    }
  }
}

/** Sets what a browser has, and answers how to put back what was there. */
export function setGlobals(values: Readonly<Record<string, unknown>>): () => void {
  const before = Object.keys(values).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const)
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
  }
  return () => {
    for (const [name, descriptor] of before) {
      if (descriptor === undefined) Reflect.deleteProperty(globalThis, name)
      else Object.defineProperty(globalThis, name, descriptor)
    }
  }
}
