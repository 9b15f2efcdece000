import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import request from 'supertest'
import { root } from '../support/fixtures/documents.js'
import { startIssuer } from '../support/servers/resource-tokens.js'
import { systemClock } from '../../src/time.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

interface Bearer {
  auth: (options: object) => RequestHandler
}
const { auth } = createRequire(join(root, 'test/slow/node_modules/x.js'))('express-oauth2-jwt-bearer') as Bearer

describe('express-oauth2-jwt-bearer', () => {
  it('protects a route by resource tokens, configured by the URL of the issuer as in the reference', async () => {
    const now = { clock: systemClock, challengeExpirationTimeInSeconds: 86_400 }
    const { url: issuerBaseURL, tokenFor } = await startIssuer(now)
    const audience = 'https://orders.example'
    const guard = auth({ issuerBaseURL, audience, tokenSigningAlg: 'ES256', strict: true })
    const app = express().get('/orders', guard, (req, res) => {
      res.json((req.auth as unknown as { payload: object }).payload)
    })
    const ask = async (resource: string) =>
      request(app)
        .get('/orders')
        .set('Authorization', `Bearer ${await tokenFor(resource)}`)
    const { status, body } = await ask(audience)
    expect([status, body]).toEqual([200, expect.objectContaining({ sub: createNumberedWallet(1).did, aud: audience })])
    expect((await ask('https://files.example')).status).toBe(401)
  })
})
