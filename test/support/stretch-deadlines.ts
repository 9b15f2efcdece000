import { jest } from '@jest/globals'
import { scaled } from './time-factor.js'

/**
 * Gives the code under test twenty times as long wherever it waits a second or more, until the test is over: a machine
 * that stands still for a few seconds must not turn a good answer into one that came too late.
 *
 * @returns what gives the real deadlines back
 */
export function stretchDeadlines(): () => void {
  const { setTimeout: real } = globalThis
  const stretched = (run: () => void, milliseconds = 0): NodeJS.Timeout =>
    real(run, milliseconds < 1_000 ? milliseconds : scaled(milliseconds * 20))
  const spy = jest.spyOn(globalThis, 'setTimeout').mockImplementation(stretched)
  return () => spy.mockRestore()
}
