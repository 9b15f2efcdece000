import { describe, expect, it } from '@jest/globals'
import { storeVerbs, type Store } from '../../src/ports.js'
import { combineStores } from '../../src/stores/combine.js'

/** A store that notes each call, and answers with its own name and the verb. */
function notingStore(name: string, notes: string[]): Store {
  const verbs = [...Object.values(storeVerbs).flat(), 'ping', 'close']
  const note =
    (verb: string) =>
    async (...args: unknown[]) => {
      notes.push([name, verb, ...args].join(' '))
      return `${name} ${verb}`
    }
  return Object.fromEntries(verbs.map((verb) => [verb, note(verb)])) as unknown as Store
}

describe('combineStores', () => {
  it.each(Object.entries(storeVerbs).flatMap(([part, verbs]) => verbs.map((verb) => [verb, part] as const)))(
    'passes %s, with all arguments, to the store of %s',
    async (verb, part) => {
      const notes: string[] = []
      const [sessions, challengeUses, quotas] = ['sessions', 'challengeUses', 'quotas'].map((name) =>
        notingStore(name, notes)
      ) as [Store, Store, Store]
      const store = combineStores({ sessions, challengeUses, quotas }) as unknown as Record<
        string,
        (...args: unknown[]) => Promise<unknown>
      >
      expect(await store[verb]!('a', 'b', 'c', 'd')).toBe(`${part} ${verb}`)
      const passed = { endSession: 'a b c d', revokeSessions: 'a b c', listSessions: 'a b c', findSession: 'a b' }
      expect(notes).toEqual([`${part} ${verb} ${passed[verb as keyof typeof passed] ?? 'a'}`])
    }
  )

  it('pings each part, and is unavailable when one is', async () => {
    const notes: string[] = []
    const [sessions, challengeUses] = [notingStore('one', notes), notingStore('other', notes)]
    const quotas = { ...notingStore('third', notes), ping: () => Promise.reject(new Error('unavailable')) }
    await combineStores({ sessions, challengeUses, quotas: challengeUses }).ping()
    expect(notes).toEqual(['one ping', 'other ping'])
    await expect(combineStores({ sessions, challengeUses, quotas }).ping()).rejects.toThrow('unavailable')
  })

  it('closes a store once that is several parts', async () => {
    const notes: string[] = []
    const [durable, quotas] = [notingStore('durable', notes), notingStore('quotas', notes)]
    await combineStores({ sessions: durable, challengeUses: durable, quotas }).close()
    expect(notes).toEqual(['durable close', 'quotas close'])
  })

  it('closes the other parts when one cannot be closed', async () => {
    const notes: string[] = []
    const broken = { ...notingStore('broken', notes), close: () => Promise.reject(new Error('disk full')) }
    const other = notingStore('other', notes)
    await expect(combineStores({ sessions: broken, challengeUses: other, quotas: other }).close()).rejects.toThrow(
      'disk full'
    )
    expect(notes).toEqual(['other close'])
  })
})
