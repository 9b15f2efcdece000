import { setTimeout as pause } from 'node:timers/promises'
import { scaled } from './time-factor.js'

/** Waits until something is so. What is not so after 50 s is an error; no test depends on how long it takes. */
export async function until(isSo: () => unknown): Promise<void> {
  const end = performance.now() + scaled(50_000)
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`it never became so: ${isSo.toString()}`)
    await pause(5)
  }
}
