import { describe, expect, it } from '@jest/globals'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Opened } from '../../../servers/process/start-server.js'

describe('Opened', () =>
  it('closes everything once, one after another in reverse order, also if one fails', async () => {
    const opened = new Opened()
    const steps: string[] = []
    const createCloser = (name: string, failure?: Error) => async (): Promise<void> => {
      steps.push(`${name} begins`)
      await nextTurn()
      steps.push(`${name} ends`)
      if (failure !== undefined) throw failure
    }
    const failure = new Error('broken')
    opened.add(createCloser('first'))
    opened.add(createCloser('second', failure))
    opened.add(createCloser('third'))
    expect(await opened.close()).toEqual([failure])
    const expectedSteps = ['third', 'second', 'first'].flatMap((name) => [`${name} begins`, `${name} ends`])
    expect(steps).toEqual(expectedSteps)
    expect(await opened.close()).toEqual([])
    expect(steps).toEqual(expectedSteps)
  }))
