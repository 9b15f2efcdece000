import { afterEach, describe, expect, it } from '@jest/globals'
import { findWallets, type Eip1193Provider } from 'express-did-auth/client'
import { wallet } from 'express-did-auth/testing'
import { setGlobals } from '../support/client-time.js'

let undo: (() => unknown)[] = []

afterEach(() => {
  for (const step of undo.reverse()) step()
  undo = []
})

const provider = (): Eip1193Provider => ({ request: () => Promise.resolve(undefined) })

describe('findWallets', () => {
  const announce = (target: EventTarget, detail: unknown): void => {
    target.dispatchEvent(Object.assign(new Event('eip6963:announceProvider'), { detail }))
  }
  const info = (rdns: string, icon = 'data:image/png;base64,AA=='): object => ({
    rdns,
    name: rdns.toUpperCase(),
    icon,
    uuid: rdns
  })

  const inBrowser = (ethereum?: Eip1193Provider): EventTarget => {
    const target = new EventTarget()
    const methods = ['addEventListener', 'removeEventListener', 'dispatchEvent'] as const
    const bound = Object.fromEntries(methods.map((name) => [name, target[name].bind(target)]))
    undo.push(setGlobals({ ...bound, ethereum }))
    return target
  }

  it('finds none without a browser', async () => {
    expect(await findWallets()).toEqual([])
  })

  it('finds those that announce themselves, early and late, each once, and no broken ones', async () => {
    const target = inBrowser()
    const [one, two] = [provider(), provider()]
    target.addEventListener('eip6963:requestProvider', () => {
      announce(target, { info: info('a.b'), provider: one })
      announce(target, { info: info('a.b'), provider: one })
      announce(target, { info: { name: 'x' }, provider: two })
      announce(target, undefined)
      setTimeout(() => {
        announce(target, { info: info('c.d', 'https://tracker.example/icon.png'), provider: two })
      }, 5)
    })
    expect(await findWallets({ ms: 60 })).toEqual([
      { id: 'a.b', name: 'A.B', icon: 'data:image/png;base64,AA==', provider: one },
      { id: 'c.d', name: 'C.D', icon: undefined, provider: two }
    ])
  })

  it('adds window.ethereum at the end, unless it has announced itself', async () => {
    const [own, other] = [provider(), provider()]
    const target = inBrowser(own)
    expect(await findWallets({ ms: 1 })).toMatchObject([{ id: 'injected', provider: own }])
    target.addEventListener('eip6963:requestProvider', () => {
      announce(target, { info: info('o'), provider: other })
    })
    expect((await findWallets({ ms: 1 })).map(({ id }) => id)).toEqual(['o', 'injected'])
    target.addEventListener('eip6963:requestProvider', () => {
      announce(target, { info: info('own'), provider: own })
    })
    expect((await findWallets({ ms: 1 })).map(({ id }) => id)).toEqual(['o', 'own'])
  })

  it('finds each wallet of the test kit, by its seed', async () => {
    const target = inBrowser()
    for (const seed of ['alice', 'bob']) wallet(seed).announce(target)
    expect((await findWallets({ ms: 1 })).map(({ name }) => name)).toEqual(['alice', 'bob'])
  })
})
