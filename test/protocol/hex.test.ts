import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { bytesOfHex, hexOfBytes } from '../../src/protocol/hex.js'

describe('bytesOfHex and hexOfBytes', () => {
  it('say what the Buffer of Node says, in either letter case', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const hex = Buffer.from(bytes).toString('hex')
        expect(hexOfBytes(bytes)).toBe(hex)
        expect(bytesOfHex(hex)).toEqual(bytes)
        expect(bytesOfHex(hex.toUpperCase())).toEqual(bytes)
      })
    )
  })
})
