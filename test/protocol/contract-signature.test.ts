import { describe, expect, it } from '@jest/globals'
import {
  assertContractAskable,
  hasDeployment,
  isKeySignature,
  parseAccountSignature
} from '../../src/protocol/contract-signature.js'
import { refusal } from '../support/refusal.js'

const bytes = (count: number): string => `0x${'Ab'.repeat(count)}`

describe('the signature of an account', () => {
  it('is 0 to 8,192 bytes of hexadecimal, read in lower case', () => {
    for (const count of [0, 1, 65, 8_192]) {
      expect(parseAccountSignature(bytes(count))).toBe(bytes(count).toLowerCase())
    }
  })

  it.each([bytes(8_193), '0xabc', 'ab', '0xzz', '0x\n', '', undefined, 7, null, ['0x'], { 0: '0x' }])(
    'is no %p',
    (value) => expect(() => parseAccountSignature(value)).toThrow(refusal('ERR_SIGNATURE'))
  )

  it('has the form of a key with 65 bytes, no more and no less', () =>
    expect([64, 65, 66].map((count) => isKeySignature(parseAccountSignature(bytes(count))))).toEqual([
      false,
      true,
      false
    ]))

  // ERC-6492: the last 32 bytes.
  it('deploys its contract when it ends with 64 92, sixteen times', () => {
    expect(hasDeployment(`0x00${'6492'.repeat(16)}`)).toBe(true)
    expect(hasDeployment(`0x${'6492'.repeat(15)}`)).toBe(false)
    expect(hasDeployment(`0x${'6492'.repeat(16)}00`)).toBe(false)
  })
})

describe('a chain', () => {
  const account = '0x0000000000000000000000000000000100000000'
  const refused = refusal('ERR_CONTRACT_SIGNATURE')

  it('is asked about addresses from 2^32 on', () => expect(() => assertContractAskable(account, '0x')).not.toThrow())

  // The identity contract at 4 answers what it is asked, which begins with the magic value of EIP-1271.
  it.each([
    '0x0000000000000000000000000000000000000004',
    '0x0000000000000000000000000000000001000006',
    '0x00000000000000000000000000000000ffffffff'
  ])('is not asked about %s, a contract of the chain itself', (address) =>
    expect(() => assertContractAskable(address, '0x')).toThrow(refused)
  )

  it('is not asked about a signature that carries a delegation (ERC-8010)', () =>
    expect(() => assertContractAskable(account, `0x00${'8010'.repeat(16)}`)).toThrow(refused))
})
