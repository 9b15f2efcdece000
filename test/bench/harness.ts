import { loadavg } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'

/** Maximum load: with more runnable processes, times measure the machine rather than this package. */
const MOST_LOAD = 2
/** Rounds that count; one more is to warm up. */
const ROUNDS = 5

/** Returns the value that is above a share of all values: 0.5 for the median, 0.99 for the p99. */
export function computeQuantile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * share)]!
}

export const computeMedian = (values: readonly number[]): number => computeQuantile(values, 0.5)

/** Prints a figure and the load of the machine: the same code shows other times on a busy one. */
export function printFigure(text: string): void {
  console.log(`${text}  [load ${readMachineLoad().toFixed(1)}]`)
}

/** Prints a figure that has a goal, in one line. One that misses it sets the exit code. */
export function reportFigure(figure: string, text: string, isMet = true): void {
  printFigure(`${figure.padEnd(4)} ${isMet ? 'ok  ' : 'MISS'} ${text}`)
  if (!isMet) process.exitCode = 1
}

/** Reports a figure about times: above a load of 2, or where the control misses it as well, it is "not measurable". */
export function reportTimes(
  figure: string,
  text: string,
  { isMet, isControlMet, load }: { isMet: boolean; isControlMet: boolean; load: number }
): void {
  if (load <= MOST_LOAD && isControlMet) reportFigure(figure, text, isMet)
  else {
    const why = load > MOST_LOAD ? `at a load of up to ${load.toFixed(1)}` : 'as the control misses the goal too'
    printFigure(`${figure.padEnd(4)} not measurable ${why}: ${text}`)
  }
}

/** Whether a figure is requested on the command line, which may give the start of its name. */
export function isChosen(name: string): boolean {
  const chosen = process.argv.slice(2).filter((word) => /^[A-Z]\d/.test(word))
  return chosen.length === 0 || chosen.some((begin) => name.startsWith(begin))
}

/** A figure that is the ratio of two numbers. */
export interface Comparison {
  goal: string
  unit: string
  rounds?: number
}

/**
 * Measures two works by turns, because a machine is not equally fast all the time, and prints their medians and the
 * median of the first over the second.
 *
 * @param works - each does its work once and answers a number, such as microseconds of CPU for a request
 */
export async function measure(
  name: string,
  { goal, unit, rounds = ROUNDS }: Comparison,
  works: Readonly<Record<string, () => Promise<number>>>
): Promise<void> {
  if (!isChosen(name)) return
  const names = Object.keys(works)
  const measured = names.map((): number[] => [])
  for (let round = 0; round <= rounds; round += 1) {
    for (const [place, work] of Object.values(works).entries()) {
      const value = await work()
      // The first round is to warm up.
      if (round > 0) measured[place]!.push(value)
    }
  }
  const [first, second] = measured as [number[], number[]]
  const ratio = computeMedian(first.map((value, round) => value / second[round]!)).toFixed(2)
  const each = measured.map((values) => computeMedian(values).toFixed(1)).join(' / ')
  printFigure(`${name.padEnd(58)} ${ratio.padStart(5)}  (goal ${goal}; ${names.join(' / ')} ${each} ${unit})`)
}

/** Microseconds of CPU of this process for a call, and how many calls there are in a second, so many at a time. */
export async function measureCalls(
  callers: number,
  count: number,
  call: (index: number) => Promise<unknown>
): Promise<{ microseconds: number; aSecond: number }> {
  const [startedAt, before] = [performance.now(), process.cpuUsage()]
  await runInParallel(callers, count, (index) => call(index))
  const { user, system } = process.cpuUsage(before)
  return { microseconds: (user + system) / count, aSecond: (count * 1_000) / (performance.now() - startedAt) }
}

/** Does `count` pieces of work, so many at a time. */
export async function runInParallel(
  workers: number,
  count: number,
  work: (index: number, worker: number) => Promise<unknown>
): Promise<void> {
  let next = 0
  const run = async (_: unknown, worker: number): Promise<void> => {
    for (let index = next++; index < count; index = next++) await work(index, worker)
  }
  await Promise.all(Array.from({ length: workers }, run))
}

/** How often so many callers together get something done in a second. */
export async function measureRate(
  callers: number,
  seconds: number,
  call: (index: number, caller: number) => Promise<unknown>
): Promise<number> {
  const startedAt = performance.now()
  let [done, next] = [0, 0]
  const run = async (_: unknown, caller: number): Promise<void> => {
    while (performance.now() - startedAt < seconds * 1_000) {
      if ((await call(next++, caller)) !== false) done += 1
    }
  }
  await Promise.all(Array.from({ length: callers }, run))
  return (done * 1_000) / (performance.now() - startedAt)
}

/**
 * Begins work at a steady rate, whether what began before has ended or not: a slow server gets no fewer requests.
 *
 * @returns how many milliseconds each piece of work took
 */
export async function applyOpenLoad(
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
      const timedWork = timed(begun)
      // A load without an end needs no memory of its work.
      if (count < Infinity) running.push(timedWork)
    }
    await pause(2)
  }
  return Promise.all(running)
}

/** Work that is measured next to other load. */
export interface Situation {
  /** Starts the other load. @returns the function that ends it */
  begin?: () => Promise<() => void>
  /** Milliseconds of each piece of the work that is measured. */
  measure: () => Promise<number[]>
}

/**
 * Measures times in several situations by turns.
 *
 * @returns milliseconds for each situation, those of all rounds together, and the highest load of the machine
 */
export async function measureTimes<Name extends string>(
  rounds: number,
  situations: Readonly<Record<Name, Situation>>
): Promise<{ milliseconds: Record<Name, number[]>; load: number }> {
  const names = Object.keys(situations) as Name[]
  const milliseconds = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, number[]>
  let load = readMachineLoad()
  for (let round = 0; round < rounds; round += 1) {
    for (const name of names) {
      const end = await situations[name].begin?.()
      milliseconds[name].push(...(await situations[name].measure()))
      end?.()
      // Remains of the previous situation must not count for the next one.
      await pause(500)
      load = Math.max(load, readMachineLoad())
    }
  }
  return { milliseconds, load }
}

/** How many processes wanted to run during the last minute, on average, the figure's own among them. */
function readMachineLoad(): number {
  return loadavg()[0]!
}
