import { describe, expect, it } from '@jest/globals'
import request, { type Test } from 'supertest'
import type { DidAuthConfig } from 'express-did-auth'
import { createDidAuth } from 'express-did-auth/fetch'
import { testConfig } from 'express-did-auth/testing'
import { afterTest } from '../support/fixtures/after-test.js'
import { createLoginText, createNumberedWallet } from '../support/fixtures/fixtures.js'
import { setEnvironment } from '../support/servers/run-script.js'
import { requestLoginChallenge } from '../support/servers/app-client.js'
import { testApp } from '../support/servers/test-app.js'

const [wallet, stranger] = [createNumberedWallet(1), createNumberedWallet(2)]
const serviceUrl = 'http://localhost:3000'

/** Logs in with the signature of another key, on this machine. */
async function refusedLogin(config: Partial<DidAuthConfig> = {}): Promise<Test> {
  const { app } = await testApp({ serviceUrl, ...config })
  const sig = stranger.personalSign(createLoginText('localhost:3000', await requestLoginChallenge(app, wallet.did)))
  return request(app).post('/auth').set('Accept', 'application/problem+json').send({ did: wallet.did, sig })
}

describe('the reason of a refusal', () => {
  it('is in problem details on the machine of a developer, without the recovered address', async () => {
    const { status, body } = await refusedLogin()
    expect([status, body.code]).toEqual([401, 'ERR_CHALLENGE'])
    expect(body.reason).toMatch(
      /^signer; expected an address that controls the DID, .*; accepted domains: localhost:3000, localhost, http:/
    )
    expect(JSON.stringify(body).toLowerCase()).not.toContain(stranger.address.slice(2).toLowerCase())
  })

  it.each([
    ['in production', { NODE_ENV: 'production' }, {}, {}],
    ['at a service on another machine', {}, { serviceUrl: 'https://service.example' }, {}],
    ['for a request that a proxy forwarded', {}, {}, { 'X-Forwarded-For': '127.0.0.1' }]
  ])('is absent %s', async (_case, environment, config, headers) => {
    afterTest(setEnvironment(environment))
    const { app } = await testApp({ serviceUrl, ...config })
    const answer = await request(app)
      .get('/me')
      .set({ Accept: 'application/problem+json', Authorization: 'DIDAuth a.b.c', ...headers })
    expect([answer.status, answer.body.code]).toEqual([401, 'ERR_ACCESS_TOKEN'])
    expect(answer.body).not.toHaveProperty('reason')
  })

  it.each([
    ['127.0.0.1', true],
    ['::1', true],
    ['::ffff:127.0.0.1', true],
    ['192.0.2.7', false],
    ['127.0.0.1.example', false],
    [undefined, false]
  ])('depends on the address of the client: %s', async (clientAddress, isShown) => {
    const log = (): void => undefined
    const didAuth = createDidAuth({ ...testConfig(), serviceUrl, logger: { info: log, warn: log, error: log } })
    const headers = { Accept: 'application/problem+json', Authorization: 'DIDAuth a.b.c' }
    const asked = new Request(`${serviceUrl}/profile`, { headers })
    const error: unknown = await didAuth.authenticate(asked, { clientAddress }).catch((error: unknown) => error)
    expect('reason' in ((await didAuth.errorResponse(error, asked).json()) as object)).toBe(isShown)
  })
})
