import { describe, expect, it } from '@jest/globals'
import express from 'express'
import request from 'supertest'
import { es256kSigner, setupDidAuth, type Signer } from 'express-did-auth'
import { logIn, loginChallenge } from '../support/app-client.js'
import { challengeSecret, serviceUrl, serviceWallet, testApp } from '../support/test-app.js'
import { loginText, walletOf } from '../support/wallet.js'

const user = walletOf(1)
const good = es256kSigner(serviceWallet.privateKey)

describe('a service whose signer fails', () => {
  it('answers logins, sign up requests with an sdr, refreshes and foreign tokens 503 with Retry-After', async () => {
    let isAway = false
    const serviceSigner: Signer = (data) =>
      isAway ? Promise.reject(new Error('the key store at 10.0.0.1 is unavailable')) : good(data)
    const requiredCredentials = ['Email']
    const { app, log, requireDid } = await testApp({ serviceSigner, requiredCredentials })
    const { refreshToken, accessToken } = await logIn(app, user)
    const challenge = await loginChallenge(app, user.did)
    isAway = true

    const sig = user.personalSign(loginText('service.example', challenge))
    const answers = [
      await request(app).post('/auth').send({ did: user.did, sig }),
      await request(app).post('/request-signup').send({ did: user.did }),
      await request(app).post('/refresh-token').send({ refreshToken })
    ]
    expect(answers.map(({ status, text, headers }) => [status, text, headers['retry-after']])).toEqual([
      [503, 'Signer unavailable, try again', '5'],
      [503, 'Signer unavailable, try again', '5'],
      [503, 'Signer unavailable, try again', '5']
    ])
    expect(log.filter(({ level }) => level === 'error')).toHaveLength(3)

    // What needs no signature goes on, and the refresh token is as good as before.
    await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    isAway = false
    await request(app).post('/refresh-token').send({ refreshToken }).expect(200)
    await requireDid.close()
  })

  it('from the start is not ready, and works by itself once the signer is back', async () => {
    let isAway = true
    const silent = (): undefined => undefined
    const app = express()
    const requireDid = setupDidAuth(app, {
      challengeSecret,
      serviceUrl,
      serviceDid: serviceWallet.did,
      serviceSigner: (data) => (isAway ? Promise.reject(new Error('away')) : good(data)),
      logger: { info: silent, warn: silent, error: silent }
    })
    app.get('/me', requireDid, (_req, res) => res.end())
    await expect(requireDid.ready).rejects.toMatchObject({ code: 'ERR_SIGNER' })
    isAway = false
    const { accessToken } = await logIn(app, user)
    await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    await requireDid.close()
  })
})
