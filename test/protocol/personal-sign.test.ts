import { describe, expect, it } from '@jest/globals'
import { Buffer } from 'node:buffer'
import { readFileSync } from 'node:fs'
import { parseSignature } from '../../src/protocol/personal-sign.js'
import { refusal } from '../support/fixtures/refusal.js'

const read = (name: string): unknown => JSON.parse(readFileSync(new URL(`../vectors/${name}`, import.meta.url), 'utf8'))
const [{ sig: good }] = (read('personal-sign.json') as { vectors: [{ sig: string }] }).vectors
const malformed = read('malformed-signatures.json') as { ERR_SIGNATURE: { name: string; sig: string }[] }
const withV = (v: number): string => good.slice(0, 130) + v.toString(16).padStart(2, '0')

describe('parseSignature', () => {
  it('returns r, s and the recovery', () => {
    const { bytes, recovery } = parseSignature(good)
    expect(Buffer.from(bytes).toString('hex')).toBe(good.slice(2, 130))
    expect(recovery).toBe(good.endsWith('1b') ? 0 : 1)
  })

  it('accepts upper-case digits', () =>
    expect(parseSignature(`0x${good.slice(2).toUpperCase()}`)).toEqual(parseSignature(good)))

  it.each([
    [0, 0],
    [1, 1],
    [27, 0],
    [28, 1],
    [37, 0],
    [38, 1],
    [95, 0],
    [96, 1],
    [97, 0],
    [98, 1]
  ])('maps v = %d to recovery %d, independent of the chain', (v, recovery) => {
    expect(parseSignature(withV(v)).recovery).toBe(recovery)
    expect(parseSignature(withV(v), 5).recovery).toBe(recovery)
  })

  it('accepts no other v if the chain is unknown', () => {
    const accepted = Array.from({ length: 256 }, (_, v) => v).filter((v) => {
      try {
        return parseSignature(withV(v))
      } catch {
        return false
      }
    })
    expect(accepted).toEqual([0, 1, 27, 28, 37, 38, 95, 96, 97, 98])
  })

  it('accepts EIP-155 for the chain of the DID, here 5: 45 and 46, not 44 and 47', () => {
    expect(parseSignature(withV(45), 5).recovery).toBe(0)
    expect(parseSignature(withV(46), 5).recovery).toBe(1)
    expect(() => parseSignature(withV(44), 5)).toThrow(refusal('ERR_SIGNATURE'))
    expect(() => parseSignature(withV(47), 5)).toThrow(refusal('ERR_SIGNATURE'))
  })

  it.each(malformed.ERR_SIGNATURE)('refuses $name', ({ sig }) =>
    expect(() => parseSignature(sig, 30)).toThrow(refusal('ERR_SIGNATURE'))
  )

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['true', true],
    ['a number', 27],
    ['a bigint', 27n],
    ['an array with one in it', [good]],
    ['an array of bytes', [...Buffer.from(good.slice(2), 'hex')]],
    ['bytes', Buffer.from(good.slice(2), 'hex')],
    ['{ r, s, v }', { r: good.slice(0, 66), s: `0x${good.slice(66, 130)}`, v: 27 }],
    ['an object that reads like one', { toString: () => good, length: 132 }],
    ['a String object', Object(good)]
  ])('refuses a value that is not a string: %s', (_name, value) =>
    expect(() => parseSignature(value)).toThrow(refusal('ERR_SIGNATURE'))
  )
})
