import { afterEach, jest } from '@jest/globals'

const steps: (() => unknown)[] = []

afterEach(async () => {
  jest.restoreAllMocks()
  for (const step of steps.splice(0).reverse()) await step()
})

/** Does something once the test is over, whatever became of it; the last thing first. */
export function afterTest(...more: (() => unknown)[]): void {
  steps.push(...more)
}
