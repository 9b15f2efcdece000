import { describe, expect, it, jest } from '@jest/globals'

// Version 3 of secp256k1 names its functions like this.
jest.unstable_mockModule('secp256k1/bindings.js', () => ({ default: { sign: () => ({}), recover: () => ({}) } }))

const { loadCurve, loadNative } = await import('../../src/adapters/curve.js')

describe('loadCurve with version 3 of secp256k1, which another package installed', () =>
  it('does not use that build, whose functions have other names', async () => {
    await expect(loadNative()).rejects.toThrow('secp256k1 is older than version 4')
    expect((await loadCurve()).kind).toBe('wasm')
  }))
