import { expect, it, jest } from '@jest/globals'
import * as hashWasm from 'hash-wasm'

let failures = 1
jest.unstable_mockModule('hash-wasm', () => ({
  ...hashWasm,
  createKeccak: async (bits: 256) => {
    failures -= 1
    if (failures >= 0) throw new Error('out of memory')
    return hashWasm.createKeccak(bits)
  }
}))
const { loadCurve } = await import('../../src/adapters/curve.js')

// Its rejection was once kept for ever: every request was 500 until the next start.
it('a curve that does not load is tried again by the next caller, and loaded once', async () => {
  await expect(loadCurve()).rejects.toThrow('out of memory')
  const curve = await loadCurve()
  expect(curve.sha256(new Uint8Array())).toHaveLength(32)
  failures = 1
  expect(await loadCurve()).toBe(curve)
})
