import { describe, expect, it } from '@jest/globals'
import { createPasskey, openPasskey } from 'express-did-auth-client/passkey'
import { derivePrivateKey } from '../../src/client/passkey/passkey-wallet.js'
import { encodeHex } from '../../src/client/wire/seal.js'
import { expectClientError } from '../support/fixtures/client-error.js'
import { setGlobals } from '../support/servers/client-service.js'

const secret = (): Uint8Array<ArrayBuffer> => Uint8Array.from({ length: 32 }, (_, index) => index)

describe('derivePrivateKey', () => {
  it('returns the first block of HKDF-SHA256 with the rpId as salt, like another implementation', () => {
    expect(encodeHex(derivePrivateKey(secret(), 'wallet.example'))).toBe(
      'e3a1619a5f438379c67bc29233e850b5b9a9112cb1f9228c053da8bf0a619b74'
    )
    expect(encodeHex(derivePrivateKey(secret(), 'a.wallet.example'))).toBe(
      '6c47d3f38b21c8c8fea9a176b6ac57c9f654a588c86278bf945bdf6605ebc3a6'
    )
  })

  it('uses the next block if a block is not a valid key', () => {
    let calls = 0
    const key = derivePrivateKey(secret(), 'wallet.example', () => (calls += 1) === 3)
    expect(encodeHex(key)).toBe('5293e5a400538be0da44574a61adaf9f2a1b26711278937c744d239989fd9aff')
  })

  it('wipes the secret', () => {
    const bytes = secret()
    derivePrivateKey(bytes, 'wallet.example')
    expect(bytes).toEqual(new Uint8Array(32))
  })
})

describe('createPasskey and openPasskey', () => {
  it('throw NO_PASSKEY without WebAuthn', async () => {
    const fields = { code: 'NO_PASSKEY', userMessage: 'Your passkey does not work here. Choose another way.' }
    await expectClientError(createPasskey({ rpId: 'wallet.example', userName: 'Ada' }), fields)
    await expectClientError(openPasskey({ rpId: 'wallet.example' }), fields)
  })

  it('report that the user declined or has no passkey: browsers do not tell which', async () => {
    const refuse = () => Promise.reject(new DOMException('not allowed', 'NotAllowedError'))
    setGlobals({ navigator: { credentials: { create: refuse, get: refuse } }, PublicKeyCredential: {} })
    const userMessage = 'You declined, or have no passkey here. Try again, or choose another way.'
    const fields = { code: 'USER_REJECTED', userMessage }
    await expectClientError(createPasskey({ rpId: 'wallet.example', userName: 'Ada' }), fields)
    await expectClientError(openPasskey({ rpId: 'wallet.example' }), fields)
  })
})
