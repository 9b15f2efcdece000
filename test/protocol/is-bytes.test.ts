import { describe, expect, it } from '@jest/globals'
import { runInNewContext } from 'node:vm'
import { es256kSigner, isPrivateKey } from 'express-did-auth'
import { VaultClient, type VaultAuth } from 'express-did-auth-client/vault'
import { parseDerSignature } from '../../src/protocol/der.js'
import { isBytes } from '../../src/protocol/is-bytes.js'

/** Creates a value in another realm, as the global objects of jsdom and Node are. */
const inOtherRealm = (code: string): unknown => runInNewContext(code)
const foreignKey = inOtherRealm('new Uint8Array(32).fill(1)') as Uint8Array

describe('isBytes', () => {
  it('accepts a Uint8Array and a Buffer, also of another realm', () => {
    expect(foreignKey instanceof Object).toBe(false)
    for (const bytes of [new Uint8Array(1), Buffer.alloc(1), foreignKey]) expect(isBytes(bytes)).toBe(true)
  })

  it.each([
    'new Uint16Array(1)',
    'new Uint8ClampedArray(1)',
    'new ArrayBuffer(1)',
    'new DataView(new ArrayBuffer(1))',
    '[1]',
    '({ length: 1, [Symbol.toStringTag]: "Uint8Array" })',
    '"a"',
    'null'
  ])('refuses %s', (code) => {
    expect(isBytes(inOtherRealm(code))).toBe(false)
  })
})

describe('bytes of another realm', () => {
  it('are keys of a service, of a vault and signatures', () => {
    expect(isPrivateKey(foreignKey)).toBe(true)
    expect(es256kSigner(foreignKey)).toBeInstanceOf(Function)
    // The client only needs a login once it is used.
    const auth = {} as VaultAuth
    expect(() => new VaultClient({ auth, url: 'https://vault.example', encrypt: { key: foreignKey } })).not.toThrow()
    const der = inOtherRealm('Uint8Array.of(0x30, 6, 2, 1, 1, 2, 1, 2)')
    expect(parseDerSignature(der)?.length).toBe(64)
  })
})
