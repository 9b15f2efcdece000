import { expect, it, jest } from '@jest/globals'
import { DidAuthClient } from 'express-did-auth-client'
import { catchFailure } from '../support/fixtures/client-error.js'
import { createPlainWallet } from '../support/servers/client-service.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

it('rejects with UNAVAILABLE if the EIP-4361 module cannot be loaded', async () => {
  jest.unstable_mockModule('../../src/client/session/siwe-login.js', () => {
    throw new TypeError('Failed to fetch dynamically imported module')
  })
  const auth = new DidAuthClient({
    url: 'https://service.example',
    wallet: createPlainWallet(createNumberedWallet(1)),
    message: 'siwe'
  })
  for (const call of [auth.logIn(), auth.prepare(), auth.siwe()])
    expect(await catchFailure(call)).toMatchObject({ code: 'UNAVAILABLE', retryable: true })
})
