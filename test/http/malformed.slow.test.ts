import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { AddressInfo } from 'node:net'
import request from 'supertest'
import { type DidAuthConfig } from 'express-did-auth'
import { logIn, loginChallenge, logInForCookies } from '../support/app-client.js'
import { testApp } from '../support/test-app.js'
import { rounds } from '../support/time-factor.js'
import { malformedRequests, runMalformed, sampleOf } from '../support/malformed.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const COUNT = rounds(300, 10_000)

/** Runs malformed requests against an application of one configuration. */
async function attack(config: Partial<DidAuthConfig>) {
  const { app, log } = await testApp(
    { maxRequestsPerTimeSlot: Infinity, ...config },
    {
      before: (host) => host.set('trust proxy', true),
      after: (host) =>
        host.use((_req, res) => {
          res.status(404).send('no such route')
        })
    }
  )
  const tokens = await logIn((await testApp()).app, wallet)
  const sig = wallet.personalSign('another message')
  const good = { did: wallet.did, sig, ...tokens, credentialJwt: 'eyJhbGciOiJFUzI1NksifQ.e30.AAAA' }
  const requests = sampleOf(malformedRequests(good), COUNT)
  const server = app.listen(0)
  try {
    return { app, log, run: await runMalformed((server.address() as AddressInfo).port, requests) }
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

describe('malformed requests', () => {
  let printed: unknown[] = []

  beforeEach(() => {
    printed = []
    for (const method of ['log', 'info', 'warn', 'error', 'debug'] as const) {
      jest.spyOn(console, method).mockImplementation((...line: unknown[]) => void printed.push(line))
    }
  })

  afterEach(() => {
    jest.restoreAllMocks()
  })

  it('are 300 or more, each different', async () => {
    const good = { did: wallet.did, sig: '0x', accessToken: 'e30.e30.AA', refreshToken: 'a', credentialJwt: 'a.b.c' }
    const requests = malformedRequests(good)
    expect(requests.length).toBeGreaterThan(2000)
    expect(new Set(sampleOf(requests, 300).map(({ bytes }) => bytes.toString('latin1'))).size).toBe(300)
  })

  it('get no 5xx, no stack and no HTML, hang nowhere, write no log, and leave the service alive', async () => {
    const { app, log, run } = await attack({})
    expect(run).toMatchObject({ faults: [] })
    expect(run.sent).toBeGreaterThanOrEqual(300)
    expect(run.statuses['401']).toBeGreaterThan(150)
    expect(log.filter(({ fields }) => fields.event !== 'first-refusal')).toEqual([])
    expect(printed).toEqual([])
    const { accessToken } = await logIn(app, wallet)
    await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
  })

  it('do no more where tokens travel in cookies', async () => {
    const { app, log, run } = await attack({ useCookies: true })
    expect(run).toMatchObject({ faults: [] })
    expect(run.sent).toBeGreaterThanOrEqual(300)
    expect(log.filter(({ fields }) => fields.event !== 'first-refusal')).toEqual([])
    expect(printed).toEqual([])
    const cookies = await logInForCookies(app, wallet)
    await request(app).get('/me').set('Cookie', cookies).expect(200)
    expect(await loginChallenge(app, wallet.did)).toMatch(/^[0-9a-f]{64}$/)
  })
})
