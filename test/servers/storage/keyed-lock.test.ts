import { describe, expect, it } from '@jest/globals'
import { KeyedLock } from '../../../servers/storage/sql/keyed-lock.js'

describe('KeyedLock', () => {
  it('runs the work of one key one after the other, also after a failure, and that of others beside it', async () => {
    const lock = new KeyedLock()
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
    const first = lock.run('a', work('first'))
    const second = lock.run('a', work('second'))
    const other = lock.run('b', work('other'))
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
