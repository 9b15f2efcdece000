import { describe, expect, it } from '@jest/globals'
import { createHash } from 'node:crypto'
import { acceptedLoginDomains, verifyApproval, verifyLoginProof } from 'express-did-auth/protocol'
import { loadCurve } from 'express-did-auth'
import { approvalStatement, parseApprovalStatement } from '../../src/protocol/format-siwe-message.js'
import { refusal } from '../support/fixtures/refusal.js'
import { createAccount, createSiweText } from '../support/fixtures/siwe.js'
import { serviceUrl } from '../support/servers/test-app.js'
import { createLoginText, createNumberedWallet } from '../support/fixtures/fixtures.js'

const curve = await loadCurve()
const domains = acceptedLoginDomains(serviceUrl, [])
const { did, address, personalSign } = createNumberedWallet(1)
const account = createAccount(1)
const rawBody = new TextEncoder().encode('{"amount":5}')
const computeHash = (data: string | Uint8Array) => createHash('sha256').update(data).digest('hex')
const readStatement = (line: string, path: string) =>
  approvalStatement(line, { method: 'POST', path, pathHash: computeHash(path) })
const approved = (fields: Parameters<typeof createSiweText>[2] = {}, path = '/transfer') => {
  const statement = readStatement('Send 5 (all)', path)
  const message = createSiweText(account, 'ab'.repeat(32), { statement, requestId: computeHash(rawBody), ...fields })
  return { message, signature: personalSign(message), rawBody, did, domains }
}

describe('verifyApproval', () => {
  it('returns the user and the approved request', () => {
    expect(verifyApproval(curve, approved())).toEqual({
      address: address.toLowerCase(),
      domain: 'service.example',
      nonce: 'ab'.repeat(32),
      issuedAt: '2027-01-15T08:00:00.000Z',
      line: 'Send 5 (all)',
      method: 'POST',
      path: '/transfer'
    })
    const long = `/transfer?${'(x)'.repeat(100)}`
    const cut = { path: long.slice(0, 200), pathHash: computeHash(long) }
    expect(verifyApproval(curve, approved({}, long))).toMatchObject(cut)
  })

  it('accepts a request without a body, and another key that the DID document listed', () => {
    const { rawBody: _none, ...proof } = approved({ requestId: computeHash('') })
    expect(verifyApproval(curve, proof).line).toBe('Send 5 (all)')
    const other = { ...approved(), did: createNumberedWallet(2).did }
    expect(verifyApproval(curve, { ...other, controllers: [address.toLowerCase()] }).method).toBe('POST')
  })

  it.each([
    ['another body', { ...approved(), rawBody: new TextEncoder().encode('{"amount":6}') }, 'ERR_APPROVAL'],
    ['no body', { ...approved(), rawBody: undefined }, 'ERR_APPROVAL'],
    [
      'another key',
      { ...approved(), signature: createNumberedWallet(2).personalSign(approved().message) },
      'ERR_APPROVAL'
    ],
    ['another user', { ...approved(), did: createNumberedWallet(2).did }, 'ERR_APPROVAL'],
    [
      'another text than the signed one',
      { ...approved({}, '/other'), signature: approved().signature },
      'ERR_APPROVAL'
    ],
    ['a login by EIP-4361', approved({ statement: 'Send 5 (POST /transfer)' }), 'ERR_MESSAGE'],
    ['a login', { ...approved(), message: createLoginText('service.example', 'ab'.repeat(32)) }, 'ERR_MESSAGE'],
    ['another site', approved({ domain: 'evil.example' }), 'ERR_MESSAGE_DOMAIN'],
    ['the signature of a contract', { ...approved(), signature: `0x${'ab'.repeat(130)}` }, 'ERR_SIGNATURE'],
    ['a DID of another method', { ...approved(), did: 'did:web:example.org' }, 'ERR_DID_UNSUPPORTED']
  ] as const)('refuses %s', (_what, proof, code) => expect(() => verifyApproval(curve, proof)).toThrow(refusal(code)))

  it('refuses a message that names another account than its signer', () => {
    const fields = { statement: readStatement('Send 5 (all)', '/transfer'), requestId: computeHash(rawBody) }
    const message = createSiweText(createAccount(2), 'ab'.repeat(32), fields)
    const proof = { ...approved(), message, signature: personalSign(message) }
    expect(() => verifyApproval(curve, proof)).toThrow(refusal('ERR_APPROVAL'))
  })

  it('refuses an approval as a login proof', () =>
    expect(() => verifyLoginProof(curve, approved())).toThrow(refusal('ERR_MESSAGE')))
})

describe('approvalStatement', () => {
  it.each([
    ['Send 1 (POST /a)', '/b'],
    ['Send 1', '/a(GET'],
    ['Send 1', '/a?q=).(...'],
    ['Send 1 (POST /b... sha256:00)', `/${'x'.repeat(199)}`]
  ])('contains the request of line %j and path %j, and matches no other', (line, path) =>
    expect(parseApprovalStatement(readStatement(line, path))).toEqual({ line, method: 'POST', path })
  )
})
