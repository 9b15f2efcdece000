import { loadavg } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'

/** Maximum load for figures about time. With more runnable processes, times measure the machine, not this package. */
const MOST_LOAD = 2
/** Number of measured rounds, after one warm-up round. */
const ROUNDS = 5

/** Returns the value that is above a share of all values: 0.5 for the median, 0.99 for the p99. */
export function computeQuantile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * share)]!
}

export const computeMedian = (values: readonly number[]): number => computeQuantile(values, 0.5)

/** Prints a figure and the load of the machine, because times depend on the load. */
export function printFigure(text: string): void {
  console.log(`${text}  [load ${readMachineLoad().toFixed(1)}]`)
}

/** Prints a figure with a goal, in one line. A missed goal sets the exit code. */
export function reportFigure(figure: string, text: string, isMet = true): void {
  printFigure(`${figure.padEnd(4)} ${isMet ? 'ok  ' : 'MISS'} ${text}`)
  if (!isMet) process.exitCode = 1
}

/** Reports a time figure as "not measurable" above a load of 2, or if the control misses the goal as well. */
export function reportTimes(
  figure: string,
  text: string,
  { isMet, isControlMet, load }: { isMet: boolean; isControlMet: boolean; load: number }
): void {
  if (load <= MOST_LOAD && isControlMet) reportFigure(figure, text, isMet)
  else {
    const cause = load > MOST_LOAD ? `at a load of up to ${load.toFixed(1)}` : 'because the control misses the goal too'
    printFigure(`${figure.padEnd(4)} not measurable ${cause}: ${text}`)
  }
}

/** Whether a figure is requested on the command line, by its name or a prefix of it. */
export function isChosen(name: string): boolean {
  const chosen = process.argv.slice(2).filter((word) => /^[A-Z]\d/.test(word))
  return chosen.length === 0 || chosen.some((begin) => name.startsWith(begin))
}

/** Figure that is the ratio of two numbers. */
export interface Comparison {
  goal: string
  unit: string
  rounds?: number
}

/**
 * Measures two works alternately, because the speed of a machine varies, and prints their medians and the median ratio.
 *
 * @param works - each does its work once and returns a number, such as microseconds of CPU per request
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
    for (const [index, work] of Object.values(works).entries()) {
      const value = await work()
      // The first round is the warm-up.
      if (round > 0) measured[index]!.push(value)
    }
  }
  const [first, second] = measured as [number[], number[]]
  const ratio = computeMedian(first.map((value, round) => value / second[round]!)).toFixed(2)
  const each = measured.map((values) => computeMedian(values).toFixed(1)).join(' / ')
  printFigure(`${name.padEnd(58)} ${ratio.padStart(5)}  (goal ${goal}; ${names.join(' / ')} ${each} ${unit})`)
}

/** Measures the CPU time of this process per call, in microseconds, and the calls per second with this concurrency. */
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

/** Runs `count` pieces of work with this concurrency. */
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

/** Measures how many calls per second succeed with this many callers. */
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
 * Starts work at a constant rate, even if earlier work has not finished. A slow server therefore gets as many requests
 * as a fast one.
 *
 * @returns the duration of each piece of work in milliseconds
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
      // An infinite load does not record its work.
      if (count < Infinity) running.push(timedWork)
    }
    await pause(2)
  }
  return Promise.all(running)
}

/** Work that is measured during another load. */
export interface Situation {
  /** Starts the other load. @returns a function that stops it */
  begin?: () => Promise<() => void>
  /** Duration of each piece of measured work in milliseconds. */
  measure: () => Promise<number[]>
}

/**
 * Measures times in several situations alternately.
 *
 * @returns milliseconds of all rounds per situation, and the highest load of the machine
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
      // Work left over from the previous situation must not count for the next one.
      await pause(500)
      load = Math.max(load, readMachineLoad())
    }
  }
  return { milliseconds, load }
}

/** Returns the average number of runnable processes in the last minute, including those of the figure. */
function readMachineLoad(): number {
  return loadavg()[0]!
}
