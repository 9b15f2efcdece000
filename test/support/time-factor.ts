/**
 * How many times as long the tests may wait on this machine: `TEST_TIME_FACTOR`, 1 unless it is set. The only place
 * where it is read. A limit in a test is there to end what hangs; it is never how a test tells right from wrong.
 */
export const timeFactor = Number(process.env.TEST_TIME_FACTOR ?? '1')

if (!(timeFactor >= 1)) throw new Error('TEST_TIME_FACTOR is a number, at least 1')

/**
 * A limit for this machine.
 *
 * @param milliseconds - the limit on a machine of two quiet cores
 * @returns milliseconds
 */
export function scaled(milliseconds: number): number {
  return milliseconds * timeFactor
}

/** `npm run figures` runs tests at the size of their figure: 1 is all of it, 0.01 a hundredth. Other runs are small. */
const share = Number(process.env.FIGURES ?? '0')

export const isFullSize = share > 0

/** How often a test does what it does: often enough to be sure, or as often as its figure says. */
export function rounds(small: number, full: number): number {
  return isFullSize ? Math.max(1, Math.round(full * share)) : small
}

/** Prints a measured figure, and whether its test passed. */
export function note(figure: string, text: string): void {
  if (isFullSize) process.stderr.write(`${figure} ${text}\n`)
}
