import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { signUpChallenge } from '../support/app-client.js'
import { START_SECONDS, testApp } from '../support/test-app.js'
import { credentialJwt, signUp } from '../support/credentials.js'
import { loginText, walletOf } from '../support/wallet.js'

const user = walletOf(1)
const issuer = walletOf(6101)
const good = credentialJwt(issuer, user.did)
const forged = credentialJwt({ did: issuer.did, privateKey: walletOf(6102).privateKey }, user.did)

describe('POST /signup with one signed body, again and again', () => {
  const expired = credentialJwt(issuer, user.did, { exp: START_SECONDS - 1 })
  const unknown = credentialJwt({ did: 'did:web:issuer.example', privateKey: issuer.privateKey }, user.did)
  const away = { resolve: () => Promise.reject(new Error('away')) }

  it.each([
    ['a forged credential', forged, {}, 401, 'Invalid credential'],
    ['an expired credential', expired, {}, 401, 'Expired credential'],
    ['an issuer that no one knows', unknown, {}, 401, 'Unproved credential issuer'],
    ['a resolver out of reach', good, { resolver: away }, 503, 'DID resolver unavailable, try again']
  ])('with %s is 429 once 200 requests named the DID', async (_name, credential, config, status, text) => {
    const { app, requireDid } = await testApp({ signupBusinessLogic: () => undefined, ...config })
    const challenge = await signUpChallenge(app, user.did)
    const sig = user.personalSign(`${loginText('service.example', challenge)}\nMy credentials are: ${credential}`)
    const server = app.listen(0)
    const send = () =>
      request(server)
        .post('/signup')
        .send({ did: user.did, sig, credentials: [credential] })
    // The challenge was the first.
    for (let number = 2; number <= 200; number += 1) await send().expect(status, text)
    await send().expect(429, 'Too many requests')
    server.close()
    await requireDid.close()
  })
})

describe('POST /signup with good credentials', () => {
  it('charges each key that was tried as a refused proof: after 100 of them the network is refused', async () => {
    const { app, requireDid } = await testApp({ maxRequestsPerTimeSlot: 1, signupBusinessLogic: () => undefined })
    const answers: number[] = []
    for (let number = 1; number <= 6; number += 1) {
      const wallet = walletOf(6200 + number)
      const credentials = Array.from({ length: 20 }, (_, at) => credentialJwt(issuer, wallet.did, { jti: String(at) }))
      answers.push((await signUp(app, wallet, { credentials })).status)
    }
    expect(answers).toEqual([200, 200, 200, 200, 200, 429])
    await requireDid.close()
  })
})
