import { loadavg } from 'node:os'

/** With more processes than this that want to run, times say more about the machine than about us. */
const MOST_LOAD = 2

/** How many processes wanted to run during the last minute, on average, the figure's own among them. */
export function machineLoad(): number {
  return loadavg()[0]!
}

/** Prints a figure with the load of the machine beside it: the same code shows other times on a busy one. */
export function printFigure(text: string): void {
  console.log(`${text}  [load ${machineLoad().toFixed(1)}]`)
}

/** Prints a figure that has a goal, in one line. One that misses it sets the exit code. */
export function reportFigure(figure: string, text: string, isMet = true): void {
  printFigure(`${figure.padEnd(4)} ${isMet ? 'ok  ' : 'MISS'} ${text}`)
  if (!isMet) process.exitCode = 1
}

/** Reports a figure about times: above a load of 2, or where the control misses the goal as well, it is "not measurable". */
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
