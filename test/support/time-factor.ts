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
