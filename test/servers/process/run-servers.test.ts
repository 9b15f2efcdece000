import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { stopAtSignal } from '../../../servers/process/run-servers.js'

type Close = () => Promise<unknown[]>

let handlers: Map<unknown, (signal: string) => void>
let exit: jest.SpiedFunction<typeof process.exit>
let errors: object[]
beforeEach(() => {
  jest.useFakeTimers()
  handlers = new Map()
  errors = []
  exit = jest.spyOn(process, 'exit').mockImplementation(() => undefined as never)
  jest.spyOn(process, 'removeAllListeners').mockReturnValue(process)
  jest.spyOn(process, 'on').mockImplementation((signal: unknown, handle: unknown) => {
    handlers.set(signal, handle as () => void)
    return process
  })
})
afterEach(() => {
  jest.restoreAllMocks()
  jest.useRealTimers()
})

/** Sends a signal to servers that close their resources in this way. */
async function signal(name: string, close: Close): Promise<AbortController> {
  const drain = new AbortController()
  const log = { info: () => undefined, error: (fields: object) => void errors.push(fields) }
  stopAtSignal(log, drain, 0, close)
  handlers.get(name)?.(name)
  await jest.advanceTimersByTimeAsync(0)
  return drain
}

const createSystemError = (code: string): Error => Object.assign(new Error(code), { code })

describe('the stop of servers at a signal', () => {
  it.each(['SIGTERM', 'SIGINT'])('at %s ends with code 0', async (name) => {
    const drain = await signal(name, async () => [])
    expect([drain.signal.aborted, exit.mock.calls, errors]).toEqual([true, [[0]], []])
  })

  it('logs each resource that could not be closed, and ends with code 1', async () => {
    await signal('SIGTERM', async () => [createSystemError('EIO'), createSystemError('EBUSY')])
    expect(exit.mock.calls).toEqual([[1]])
    expect(errors).toEqual([
      expect.objectContaining({ event: 'stop-failed', code: 'EIO' }),
      expect.objectContaining({ event: 'stop-failed', code: 'EBUSY' })
    ])
  })

  it('ends with code 1 and a line in the log if it takes too long', async () => {
    await signal('SIGTERM', () => new Promise(() => undefined))
    expect(exit).not.toHaveBeenCalled()
    await jest.advanceTimersByTimeAsync(600_000)
    expect([exit.mock.calls, errors]).toEqual([[[1]], [{ event: 'stopped-late' }]])
  })
})
