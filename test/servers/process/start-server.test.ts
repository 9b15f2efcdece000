import { describe, expect, it } from '@jest/globals'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { CloseStack } from '../../../servers/process/start-server.js'

describe('CloseStack', () =>
  it('closes everything once, one after another in reverse order, also if one fails', async () => {
    const closeStack = new CloseStack()
    const steps: string[] = []
    const createCloser = (name: string, failure?: Error) => async (): Promise<void> => {
      steps.push(`${name} begins`)
      await nextTurn()
      steps.push(`${name} ends`)
      if (failure !== undefined) throw failure
    }
    const failure = new Error('broken')
    closeStack.add(createCloser('first'))
    closeStack.add(createCloser('second', failure))
    closeStack.add(createCloser('third'))
    expect(await closeStack.close()).toEqual([failure])
    const expectedSteps = ['third', 'second', 'first'].flatMap((name) => [`${name} begins`, `${name} ends`])
    expect(steps).toEqual(expectedSteps)
    expect(await closeStack.close()).toEqual([])
    expect(steps).toEqual(expectedSteps)
  }))
