import { setTimeout as pause } from 'node:timers/promises'
import { machineLoad } from './report-figure.js'

/**
 * Begins work at a steady rate, whether what began before has ended or not: a slow server gets no fewer requests.
 *
 * @returns how many milliseconds each piece of work took
 */
export async function openLoad(
  perSecond: number,
  count: number,
  work: (index: number) => Promise<unknown>
): Promise<number[]> {
  const running: Promise<number>[] = []
  const timed = async (index: number): Promise<number> => {
    const startedAt = performance.now()
    await work(index)
    return performance.now() - startedAt
  }
  const startedAt = performance.now()
  for (let begun = 0; begun < count;) {
    const due = Math.min(count, ((performance.now() - startedAt) / 1_000) * perSecond)
    for (; begun < due; begun += 1) {
      const one = timed(begun)
      // A load without an end needs no memory of its work.
      if (count < Infinity) running.push(one)
    }
    await pause(2)
  }
  return Promise.all(running)
}

/** What is measured beside something else. */
export interface Situation {
  /** Begins what happens beside it. @returns how that is ended */
  begin?: () => Promise<() => void>
  /** Milliseconds of each piece of the work that is measured. */
  measure: () => Promise<number[]>
}

/**
 * Measures in several situations by turns, because a machine is not equally fast all the time.
 *
 * @returns milliseconds for each situation, those of all rounds together, and the highest load of the machine
 */
export async function measureByTurns<Name extends string>(
  rounds: number,
  situations: Readonly<Record<Name, Situation>>
): Promise<{ milliseconds: Record<Name, number[]>; load: number }> {
  const names = Object.keys(situations) as Name[]
  const milliseconds = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, number[]>
  let load = machineLoad()
  for (let round = 0; round < rounds; round += 1) {
    for (const name of names) {
      const { begin, measure } = situations[name]
      const end = await begin?.()
      milliseconds[name].push(...(await measure()))
      end?.()
      // What the last one leaves behind is not the next one's.
      await pause(500)
      load = Math.max(load, machineLoad())
    }
  }
  return { milliseconds, load }
}
