import { describe, expect, it } from '@jest/globals'
import { cachedIssuerKeys } from '../../src/adapters/cached-issuer-keys.js'
import { ethrDidResolver } from '../../src/adapters/ethr-did-resolver.js'
import { timerDeadline } from '../../src/adapters/system.js'

describe('cachedIssuerKeys', () => {
  it('keeps the answers of 1000 issuers, and forgets the oldest first', async () => {
    const asked: string[] = []
    const resolver = {
      resolve: async (did: string) => {
        asked.push(did)
        return { didDocument: { id: did, assertionMethod: [{ id: `${did}#key` }] } }
      }
    }
    const keys = cachedIssuerKeys({ clock: { nowSeconds: () => 1_800_000_000 }, deadline: timerDeadline }, resolver)
    for (let number = 0; number < 1_001; number += 1) await keys.keysOf(`did:web:issuer-${String(number)}.example`)
    asked.length = 0
    await keys.keysOf('did:web:issuer-1.example')
    await keys.keysOf('did:web:issuer-1000.example')
    expect(asked).toEqual([])
    expect(await keys.keysOf('did:web:issuer-0.example')).toEqual([{ id: 'did:web:issuer-0.example#key' }])
    expect(asked).toEqual(['did:web:issuer-0.example'])
  })

  it('asks for 50 issuers at once, refuses the 51st as busy, and goes on when one is answered', async () => {
    const answers: ((answer: unknown) => void)[] = []
    const resolver = { resolve: () => new Promise<unknown>((resolve) => answers.push(resolve)) }
    const keys = cachedIssuerKeys({ clock: { nowSeconds: () => 1_800_000_000 }, deadline: timerDeadline }, resolver)
    const ask = (number: number): Promise<unknown> => keys.keysOf(`did:web:issuer-${String(number)}.example`)
    const first = Array.from({ length: 50 }, (_, number) => ask(number))
    await expect(ask(50)).rejects.toMatchObject({ code: 'ERR_BUSY', retryAfterSeconds: 1 })
    const again = ask(0)
    await new Promise(setImmediate)
    expect(answers).toHaveLength(50)

    answers[0]?.({ didDocument: {} })
    expect(await Promise.all([first[0], again])).toEqual([[], []])
    const late = ask(50)
    await new Promise(setImmediate)
    expect(answers).toHaveLength(51)
    for (const answer of answers) answer({ didDocument: {} })
    await Promise.all([...first, late])
  })

  it('asks again when the 50 under way have failed', async () => {
    const resolver = { resolve: () => Promise.reject(new Error('away')) }
    const keys = cachedIssuerKeys({ clock: { nowSeconds: () => 1_800_000_000 }, deadline: timerDeadline }, resolver)
    const ask = (number: number): Promise<unknown> => keys.keysOf(`did:web:issuer-${String(number)}.example`)
    for (let round = 0; round < 2; round += 1) {
      const outcomes = await Promise.allSettled(Array.from({ length: 50 }, (_, number) => ask(number)))
      expect(outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason)).toEqual(
        Array(50).fill(expect.objectContaining({ code: 'ERR_RESOLVER' }))
      )
    }
  })
})

describe('ethrDidResolver', () => {
  it('asks nobody any more once it is closed', async () => {
    const networks = [{ name: 'rsk', rpcUrl: 'http://127.0.0.1:8545', chainId: 30 }]
    const resolver = ethrDidResolver(networks, '0xdca7ef03e98e0dc2b855be647c39abe984fcf21b')
    resolver.close()
    const did = 'did:ethr:rsk:0x7e5f4552091a69125d5dfcb7b8c2659029395bdf'
    await expect(resolver.resolve(did)).rejects.toThrow('the resolver is closed')
  })
})
