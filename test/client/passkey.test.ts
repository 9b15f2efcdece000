import { describe, expect, it } from '@jest/globals'
import { createPasskey, openPasskey } from 'express-did-auth-client/passkey'
import { derivePrivateKey } from '../../src/client/passkey/passkey-wallet.js'
import { encodeHex } from '../../src/client/wire/seal.js'
import { expectClientError } from '../support/fixtures/client-error.js'
import { createMachineKey } from 'express-did-auth-client/machine'
import { RelayClient } from 'express-did-auth-client/relay'
import { VaultClient } from 'express-did-auth-client/vault'
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

/** Starts an authenticator, whose prompts answer with the given secrets. Undefined: the user cancels. */
function startAuthenticator(secrets: (number | undefined)[], createdSecret?: number) {
  const created: { excludeCredentials: { id: ArrayBuffer }[] }[] = []
  const rawId = Uint8Array.of(1, 2, 3).buffer
  const answer = (seed: number | undefined) => ({
    rawId,
    getClientExtensionResults: () =>
      seed === undefined ? {} : { prf: { results: { first: new Uint8Array(32).fill(seed).buffer } } }
  })
  const credentials = {
    create: async ({ publicKey }: { publicKey: (typeof created)[number] }) => {
      created.push(publicKey)
      if (publicKey.excludeCredentials.length > 0) throw new DOMException('exists', 'InvalidStateError')
      return answer(createdSecret)
    },
    get: async () => {
      const seed = secrets.shift()
      if (seed === undefined) throw new DOMException('not allowed', 'NotAllowedError')
      return answer(seed)
    }
  }
  setGlobals({ navigator: { credentials }, PublicKeyCredential: {} })
  return { created }
}

describe('a passkey whose second prompt was cancelled', () => {
  it('is named by the error, and another attempt creates no second one until it was opened', async () => {
    const { created } = startAuthenticator([undefined, 1])
    const options = { rpId: 'again.example', userName: 'Ada' }
    const exists = { userMessage: 'Your passkey exists. Choose Open.', passkeyId: 'AQID' }
    await expectClientError(createPasskey(options), { code: 'USER_REJECTED', ...exists })
    await expectClientError(createPasskey(options), { code: 'WALLET', ...exists })
    expect(created.map(({ excludeCredentials }) => excludeCredentials.length)).toEqual([0, 1])
    const { id } = await openPasskey(options)
    expect(id).toBe('passkey again.example AQID')
    await createPasskey({ ...options, userName: 'Bob' }).catch(() => undefined)
    expect(created[2]!.excludeCredentials).toEqual([])
  })
})

describe('a passkey whose secret changes', () => {
  it('signs with the key of its address only', async () => {
    startAuthenticator([2, 1], 1)
    const wallet = await createPasskey({ rpId: 'wallet.example', userName: 'Ada' })
    const first = await wallet.signMessage('text')
    await expectClientError(wallet.signMessage('text'), {
      code: 'NO_PASSKEY',
      userMessage: 'Your passkey gives another key than before. Choose another way.'
    })
    expect(await wallet.signMessage('text')).toBe(first)
  })
})

describe('a page without https', () => {
  it('gets one error that names https', async () => {
    const fields = { code: 'INSECURE', userMessage: 'This page is not secure. Use its https address.' }
    const key = new Uint8Array(32)
    // Such a page has no `navigator.credentials`.
    setGlobals({
      navigator: {},
      PublicKeyCredential: undefined,
      crypto: { getRandomValues: crypto.getRandomValues.bind(crypto) }
    })
    const auth = { session: { did: 'did:ethr:rsk:0x1' }, fetch, tokenFor: async () => 'token' } as never
    const calls = [
      openPasskey({ rpId: 'wallet.example' }),
      new VaultClient({ auth, encrypt: { key } }).add('notes', 'x'),
      new RelayClient({ url: 'http://127.0.0.1:1' }).send('x'),
      createMachineKey()
    ]
    for (const call of calls) await expectClientError(call, fields)
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
