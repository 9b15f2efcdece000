import { describe, expect, it } from '@jest/globals'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { CloseStack } from '../../../servers/process/start-server.js'

describe('CloseStack', () =>
  it('closes once, in reverse order, one after another, also where one fails', async () => {
    const closeStack = new CloseStack()
    const steps: string[] = []
    const closing = (name: string, failure?: Error) => async (): Promise<void> => {
      steps.push(`${name} begins`)
      await nextTurn()
      steps.push(`${name} ends`)
      if (failure !== undefined) throw failure
    }
    const failure = new Error('broken')
    closeStack.add(closing('first'))
    closeStack.add(closing('second', failure))
    closeStack.add(closing('third'))
    expect(await closeStack.close()).toEqual([failure])
    const each = ['third', 'second', 'first'].flatMap((name) => [`${name} begins`, `${name} ends`])
    expect(steps).toEqual(each)
    expect(await closeStack.close()).toEqual([])
    expect(steps).toEqual(each)
  }))
