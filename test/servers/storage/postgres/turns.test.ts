import { describe, expect, it } from '@jest/globals'
import { Turns } from '../../../../servers/storage/postgres/turns.js'

describe('Turns', () => {
  it('run the work of one owner one after the other, also after a failure, and that of others beside it', async () => {
    const turns = new Turns()
    const begun: string[] = []
    const ends = new Map<string, (error?: Error) => void>()
    const work = (name: string) => (): Promise<string> => {
      begun.push(name)
      return new Promise((resolve, reject) => {
        ends.set(name, (error) => {
          if (error === undefined) resolve(name)
          else reject(error)
        })
      })
    }
    const first = turns.run('a', work('first'))
    const second = turns.run('a', work('second'))
    const other = turns.run('b', work('other'))
    await new Promise(setImmediate)
    expect(begun).toEqual(['first', 'other'])
    ends.get('first')!(new Error('refused'))
    await expect(first).rejects.toThrow('refused')
    await new Promise(setImmediate)
    expect(begun).toEqual(['first', 'other', 'second'])
    ends.get('second')!()
    ends.get('other')!()
    expect(await Promise.all([second, other])).toEqual(['second', 'other'])
  })
})
