import { beforeAll, describe, expect, it } from '@jest/globals'
import { SigningKey, Wallet } from 'ethers'
import { privateKeyToAccount } from 'viem/accounts'
import { loadCurve } from '../../src/adapters/curve.js'
import type { Curve } from '../../src/protocol/curve.js'
import {
  addressOfDid,
  assertNetwork,
  canonicalDid,
  chainIdOfDid,
  toContractDid,
  isDid,
  isEthrDid,
  isEthrNetwork,
  findNetworkNumber,
  parseDid
} from '../../src/protocol/did.js'
import { refusal } from '../support/fixtures/refusal.js'

const ADDRESS = '0x7e5f4552091a69125d5dfcb7b8c2659029395bdf'
const EIP_55 = '0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf'

describe('parseDid', () => {
  it.each([
    `did:ethr:${ADDRESS}`,
    `did:ethr:rsk:${EIP_55}`,
    'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
    'did:web:example.com%3A8443:user:alice',
    'did:a:b',
    'did:0:-',
    'did:a:::b',
    'did:a:%2f',
    `did:a:${'b'.repeat(122)}`
  ])('returns %s unchanged', (did) => expect(parseDid(did)).toBe(did))

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a number', 5],
    ['an array', ['did:a:b']],
    ['an object that reads like one', { toString: () => 'did:a:b' }],
    ['a String object', Object('did:a:b')],
    ['the empty string', ''],
    ['no method', 'did::b'],
    ['no identifier', 'did:a:'],
    ['no second colon', 'did:a'],
    ['a colon at the end', 'did:a:b:'],
    ['a method in upper case', 'did:Ethr:b'],
    ['a scheme in upper case', 'DID:a:b'],
    ['a space in front', ' did:a:b'],
    ['a line feed at the end', 'did:a:b\n'],
    ['a path', 'did:a:b/c'],
    ['a query', 'did:a:b?c'],
    ['a fragment', 'did:a:b#c'],
    ['a percent sign alone', 'did:a:b%'],
    ['half an escape', 'did:a:b%2'],
    ['an escape that is none', 'did:a:b%2g'],
    ['a letter beyond ASCII', 'did:a:bé'],
    ['a full-width digit', 'did:a:１'],
    ['a NUL', 'did:a:b\0'],
    ['129 characters', `did:a:${'b'.repeat(123)}`]
  ])('refuses %s', (_name, value) => expect(() => parseDid(value)).toThrow(refusal('ERR_DID')))

  it('stays fast for 1 MB', () => expect(isDid(`did:a:${':'.repeat(1_000_000)}`)).toBe(false))
})

describe('canonicalDid', () => {
  it('is equal for every letter case of an address and a network', () => {
    expect(canonicalDid(`did:ethr:RSK:${EIP_55}`)).toBe(`did:ethr:rsk:${ADDRESS}`)
    expect(canonicalDid(`did:ethr:rsk:${ADDRESS}`)).toBe(`did:ethr:rsk:${ADDRESS}`)
  })

  it('distinguishes two networks', () =>
    expect(canonicalDid(`did:ethr:rsk:${ADDRESS}`)).not.toBe(canonicalDid(`did:ethr:rsk:testnet:${ADDRESS}`)))
})

describe('addressOfDid', () => {
  it.each([
    ['no network', `did:ethr:${ADDRESS}`],
    ['one name', `did:ethr:rsk:${ADDRESS}`],
    ['two names', `did:ethr:rsk:testnet:${ADDRESS}`],
    ['a name with a hyphen, a digit and an underscore', `did:ethr:arbitrum-one_2:${ADDRESS}`],
    ['a chain id', `did:ethr:0x1e:${ADDRESS}`],
    ['a chain id of 16 digits', `did:ethr:0xffffffffffffffff:${ADDRESS}`],
    ['EIP-55 spelling', `did:ethr:rsk:${EIP_55}`],
    ['a wrong checksum, which no one asks for', `did:ethr:rsk:${ADDRESS.replace('b8c', 'B8c')}`],
    ['upper case throughout', `did:ethr:rsk:${ADDRESS.toUpperCase()}`]
  ])('returns the address, in lower case, of a did:ethr with %s', (_name, did) => {
    expect(addressOfDid(did)).toBe(ADDRESS)
    expect(isEthrDid(did)).toBe(true)
  })

  it.each([
    ['another method', 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK'],
    ['an uncompressed public key', `did:ethr:rsk:0x04${'ab'.repeat(64)}`],
    ['an uncompressed public key of the length of a compressed one', `did:ethr:rsk:0x04${'ab'.repeat(32)}`],
    ['a public key of 65 digits', `did:ethr:rsk:0x02${'a'.repeat(63)}`],
    ['a public key of 67 digits', `did:ethr:rsk:0x02${'a'.repeat(65)}`],
    ['a public key with a network behind it', `did:ethr:0x02${'ab'.repeat(32)}:rsk`],
    ['39 digits', `did:ethr:${ADDRESS.slice(0, -1)}`],
    ['41 digits', `did:ethr:${ADDRESS}0`],
    ['no 0x', `did:ethr:${ADDRESS.slice(2)}`],
    ['a letter that is no digit', `did:ethr:${ADDRESS.slice(0, -1)}g`],
    ['three names', `did:ethr:a:b:c:${ADDRESS}`],
    ['a name and a chain id', `did:ethr:rsk:0x1e:${ADDRESS}`],
    ['a chain id and a name', `did:ethr:0x1e:rsk:${ADDRESS}`],
    ['an empty name', `did:ethr::${ADDRESS}`],
    ['a name that starts with a digit', `did:ethr:1e:${ADDRESS}`],
    ['a chain id without digits', `did:ethr:0x:${ADDRESS}`],
    ['a chain id of 17 digits', `did:ethr:0x1ffffffffffffffff:${ADDRESS}`],
    ['a method that only starts alike', `did:ethrx:${ADDRESS}`],
    ['something behind the address', `did:ethr:${ADDRESS}:x`],
    ['a line feed at the end', `did:ethr:${ADDRESS}\n`]
  ])('refuses %s', (_name, did) => {
    expect(() => addressOfDid(did)).toThrow(refusal('ERR_DID_UNSUPPORTED'))
    expect(isEthrDid(did)).toBe(false)
  })
})

describe('addressOfDid of a public key', () => {
  const { signingKey, address } = new Wallet(`0x${'0123'.repeat(16)}`)
  const viemAccount = privateKeyToAccount(`0x${'4567'.repeat(16)}`)
  let curve: Curve

  beforeAll(async () => {
    curve = await loadCurve()
  })

  const keys: [string, string, string][] = [
    ['ethers', signingKey.compressedPublicKey, address],
    ['viem', SigningKey.computePublicKey(viemAccount.publicKey, true), viemAccount.address]
  ]

  it.each(keys)(
    'returns the address of the wallet (%s), with and without network, in any letter case',
    (_by, key, wallet) => {
      for (const network of ['', 'rsk:', 'rsk:testnet:', '0x1e:']) {
        for (const spelled of [key, `0x${key.slice(2).toUpperCase()}`, key.toUpperCase()]) {
          const did = `did:ethr:${network}${spelled}`
          expect(isDid(did)).toBe(true)
          expect(isEthrDid(did)).toBe(true)
          expect(addressOfDid(did, curve)).toBe(wallet.toLowerCase())
        }
      }
    }
  )

  it('distinguishes keys of both signs: 02 and 03 before one x are two addresses', () => {
    const x = signingKey.compressedPublicKey.slice(4)
    const addresses = ['02', '03'].map((sign) => addressOfDid(`did:ethr:0x${sign}${x}`, curve))
    expect(new Set(addresses).size).toBe(2)
    expect(addresses).toContain(address.toLowerCase())
  })

  it('fails with ERR_DID_UNSUPPORTED without a curve, and for an x that is not on the curve', () => {
    expect(() => addressOfDid(`did:ethr:rsk:${signingKey.compressedPublicKey}`)).toThrow(refusal('ERR_DID_UNSUPPORTED'))
    // x = 5 is no square on y² = x³ + 7; all ones is no element of the field.
    for (const x of ['5'.padStart(64, '0'), 'f'.repeat(64)]) {
      expect(() => addressOfDid(`did:ethr:0x02${x}`, curve)).toThrow(refusal('ERR_DID_UNSUPPORTED'))
    }
  })

  it('accepts the chain id before the key', () => {
    expect(chainIdOfDid(`did:ethr:rsk:${signingKey.compressedPublicKey}`)).toBe(30)
    expect(chainIdOfDid(`did:ethr:${signingKey.compressedPublicKey}`)).toBe(1)
  })
})

describe('chainIdOfDid', () =>
  it.each([
    [`did:ethr:${ADDRESS}`, 1],
    [`did:ethr:mainnet:${ADDRESS}`, 1],
    [`did:ethr:rsk:${ADDRESS}`, 30],
    [`did:ethr:RSK:${ADDRESS}`, 30],
    [`did:ethr:rsk:testnet:${ADDRESS}`, 31],
    [`did:ethr:0x1e:${ADDRESS}`, 30],
    [`did:ethr:0x5:${ADDRESS}`, 5],
    [`did:ethr:sepolia:${ADDRESS}`, undefined]
  ])('maps %s to %s', (did, chainId) => expect(chainIdOfDid(did)).toBe(chainId)))

describe('toContractDid', () =>
  it('contains the number of the chain, never its name', () => {
    const contractDids = [1, 30, 31, 8453].map((chainId) => toContractDid({ chainId, address: ADDRESS.toLowerCase() }))
    expect(contractDids).toEqual(
      ['0x1', '0x1e', '0x1f', '0x2105'].map((name) => `did:ethr:${name}:${ADDRESS.toLowerCase()}`)
    )
    expect(['0x1e', '0x001E', 'rsk', '', undefined].map(findNetworkNumber)).toEqual([
      30,
      30,
      undefined,
      undefined,
      undefined
    ])
  }))

describe('isEthrNetwork', () => {
  it.each(['', 'rsk', 'rsk:testnet', 'RSK', 'sepolia', '0x1e'])('accepts %j', (network) =>
    expect(isEthrNetwork(network)).toBe(true)
  )

  it.each([':', 'rsk:', 'a:b:c', '0x', '30', 'a b', `rsk:${ADDRESS}`, 'a'.repeat(90), 30, undefined])(
    'refuses %j',
    (network) => expect(isEthrNetwork(network)).toBe(false)
  )
})

describe('assertNetwork', () => {
  it.each([
    ['a name of the list', `did:ethr:rsk:${ADDRESS}`],
    ['in other letters', `did:ethr:RSK:${ADDRESS}`],
    ['none, for Ethereum', `did:ethr:${ADDRESS}`],
    ['a chain id of the list', `did:ethr:0x1E:${ADDRESS}`]
  ])('accepts a DID of %s', (_name, did) => assertNetwork(did, ['Rsk', '', '0x1e']))

  it.each([
    [`did:ethr:rsk:testnet:${ADDRESS}`, 'rsk:testnet'],
    [`did:ethr:mainnet:${ADDRESS}`, 'mainnet'],
    ['did:web:example.com', 'another method']
  ])('refuses %s, and names the accepted networks', (did, got) => {
    const reason = { check: 'network', expected: ['rsk', ''], got, option: 'networks' }
    expect(() => assertNetwork(did, ['rsk', ''])).toThrow(
      expect.objectContaining({ code: 'ERR_DID_UNSUPPORTED', reason })
    )
    assertNetwork(did, undefined)
  })
})
