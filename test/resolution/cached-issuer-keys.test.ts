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
