import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { authApp, logIn } from '../support/auth-app.js'
import { walletOf } from '../support/wallet.js'

describe('POST /auth', () => {
  it('answers tokens for a signed challenge, and the access token opens a guarded route', async () => {
    const { app } = await authApp()
    const wallet = walletOf(1)
    const { accessToken } = await logIn(app, wallet)
    const me = await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    expect((me.body as { user: unknown }).user).toEqual({ did: wallet.did })
  })
})
