import { describe, expect, it } from '@jest/globals'
import { indexedDb, local, memory, session, type ClientStorage } from 'express-did-auth/client'
import { setGlobals } from '../support/client-service.js'

/** A `localStorage` of a Map. */
function webStorage(values = new Map<string, string>()) {
  return {
    values,
    getItem: (key: string) => values.get(key) ?? null,
    setItem: (key: string, value: string) => void values.set(key, value),
    removeItem: (key: string) => void values.delete(key)
  }
}

/** An IndexedDB with the events that the client waits for, each in a task of its own. */
function fakeDatabase() {
  const values = new Map<string, string>()
  let opened = 0
  const request = (result: unknown, fails = false) => {
    const made: Record<string, unknown> = { result, error: fails ? new Error('quota') : null }
    const fire = (name: string): void => {
      setImmediate(() => {
        const handler = made[fails ? 'onerror' : name]
        if (typeof handler === 'function') handler.call(undefined)
      })
    }
    return { made, fire }
  }
  const database = {
    createObjectStore: () => undefined,
    close: () => (opened -= 1),
    transaction: () => {
      const { made, fire } = request(undefined)
      fire('oncomplete')
      const answer = (result?: unknown) => request(result).made
      return Object.assign(made, {
        objectStore: () => ({
          get: (key: string) => answer(values.get(key)),
          put: (value: string, key: string) => answer(values.set(key, value)),
          delete: (key: string) => answer(values.delete(key))
        })
      })
    }
  }
  const open = (fails: boolean) => {
    const { made, fire } = request(database, fails)
    opened += 1
    setImmediate(() => {
      if (!fails) (made.onupgradeneeded as () => void)()
      fire('onsuccess')
    })
    return made
  }
  return { values, opened: () => opened, working: { open: () => open(false) }, broken: { open: () => open(true) } }
}

async function goThrough(storage: ClientStorage): Promise<unknown[]> {
  const before = await storage.get('a')
  await storage.set('a', '1')
  await storage.set('a', '2')
  const after = await storage.get('a')
  await storage.delete('a')
  return [before ?? undefined, after, (await storage.get('a')) ?? undefined]
}

describe('the storages', () => {
  it.each([
    ['memory()', memory],
    ['local() without a browser', local],
    ['session() without a browser', session],
    ['indexedDb() without a browser', indexedDb]
  ])('%s keeps values while the process runs', async (_name, make) => {
    expect(await goThrough(make())).toEqual([undefined, '2', undefined])
  })

  it('local() and session() keep values in their areas', async () => {
    const [localStorage, sessionStorage] = [webStorage(), webStorage()]
    setGlobals({ localStorage, sessionStorage })
    await local().set('a', '1')
    await session().set('a', '2')
    expect([localStorage.values.get('a'), sessionStorage.values.get('a')]).toEqual(['1', '2'])
    expect(await goThrough(local())).toEqual(['1', '2', undefined])
    expect(localStorage.values.size).toBe(0)
  })

  it('local() keeps values in memory where the area is full', async () => {
    const full = webStorage(new Map([['a', 'old']]))
    full.setItem = () => {
      throw new DOMException('full', 'QuotaExceededError')
    }
    setGlobals({ localStorage: full })
    expect(await goThrough(local())).toEqual(['old', '2', undefined])
  })

  it('local() keeps values in memory where the user has forbidden storage', async () => {
    setGlobals({ localStorage: undefined })
    Object.defineProperty(globalThis, 'localStorage', {
      configurable: true,
      get() {
        throw new DOMException('denied', 'SecurityError')
      }
    })
    expect(await goThrough(local())).toEqual([undefined, '2', undefined])
  })

  it('indexedDb() keeps values in a database, which it closes each time, and says when that fails', async () => {
    const database = fakeDatabase()
    setGlobals({ indexedDB: database.working })
    await indexedDb().set('b', '1')
    expect(database.values.get('b')).toBe('1')
    expect(await goThrough(indexedDb())).toEqual([undefined, '2', undefined])
    expect(database.opened()).toBe(0)
    setGlobals({ indexedDB: database.broken })
    await expect(indexedDb().get('b')).rejects.toThrow('IndexedDB failed')
  })

  it('only memory() says that no other tab sees it', () => {
    const storages = [memory(), local(), session()]
    expect(storages.map(({ isPrivate }) => isPrivate === true)).toEqual([true, false, false])
  })
})
