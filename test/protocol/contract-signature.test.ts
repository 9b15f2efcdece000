import { describe, expect, it } from '@jest/globals'
import {
  assertContractAskable,
  hasDeployment,
  isKeySignature,
  parseAccountSignature
} from '../../src/protocol/contract-signature.js'
import { refusal } from '../support/fixtures/refusal.js'

const bytes = (count: number): string => `0x${'Ab'.repeat(count)}`

describe('parseAccountSignature', () => {
  it('accepts 0 to 8,192 bytes of hexadecimal, and returns lower case', () => {
    for (const count of [0, 1, 65, 8_192]) {
      expect(parseAccountSignature(bytes(count))).toBe(bytes(count).toLowerCase())
    }
  })

  it.each([bytes(8_193), '0xabc', 'ab', '0xzz', '0x\n', '', undefined, 7, null, ['0x'], { 0: '0x' }])(
    'refuses %p',
    (value) => expect(() => parseAccountSignature(value)).toThrow(refusal('ERR_SIGNATURE'))
  )

  it('recognizes 65 bytes as the signature of a key, no more and no less', () =>
    expect([64, 65, 66].map((count) => isKeySignature(parseAccountSignature(bytes(count))))).toEqual([
      false,
      true,
      false
    ]))

  // ERC-6492: the last 32 bytes.
  it('detects a deployment by the suffix of 64 92, sixteen times', () => {
    expect(hasDeployment(`0x00${'6492'.repeat(16)}`)).toBe(true)
    expect(hasDeployment(`0x${'6492'.repeat(15)}`)).toBe(false)
    expect(hasDeployment(`0x${'6492'.repeat(16)}00`)).toBe(false)
  })
})

describe('assertContractAskable', () => {
  const account = '0x0000000000000000000000000000000100000000'
  const refused = refusal('ERR_CONTRACT_SIGNATURE')

  it('accepts addresses from 2^32 on', () => expect(() => assertContractAskable(account, '0x')).not.toThrow())

  // The identity contract at 4 returns its input, which starts with the magic value of EIP-1271.
  it.each([
    '0x0000000000000000000000000000000000000004',
    '0x0000000000000000000000000000000001000006',
    '0x00000000000000000000000000000000ffffffff'
  ])('refuses %s, a precompiled contract of the chain', (address) =>
    expect(() => assertContractAskable(address, '0x')).toThrow(refused)
  )

  it('refuses a signature that contains a delegation (ERC-8010)', () =>
    expect(() => assertContractAskable(account, `0x00${'8010'.repeat(16)}`)).toThrow(refused))
})
