import { afterEach, jest } from '@jest/globals'

const steps: (() => unknown)[] = []

afterEach(async () => {
  jest.restoreAllMocks()
  for (const step of steps.splice(0).reverse()) await step()
})

/** Runs functions after the test, whatever its result; the last one first. */
export function afterTest(...more: (() => unknown)[]): void {
  steps.push(...more)
}
