import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { AddressInfo } from 'node:net'
import { testApp } from '../support/servers/test-app.js'
import { rounds } from '../support/fixtures/time-factor.js'
import { malformedRequests, runMalformed, takeSample } from '../support/faults/malformed.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const COUNT = rounds(300, 10_000)

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

  it.each([false, true])(
    'cause no 5xx, stack, HTML, log line or hang, and the service survives, useCookies: %j',
    async (useCookies) => {
      const { app, log, logIn, logInForCookies, me } = await testApp(
        { maxRequestsPerTimeSlot: Infinity, useCookies },
        {
          before: (host) => host.set('trust proxy', true),
          after: (host) => host.use((_req, res) => void res.status(404).send('no such route'))
        }
      )
      const tokens = await (await testApp()).logIn()
      const sig = wallet.personalSign('another message')
      const good = { did: wallet.did, sig, ...tokens, credentialJwt: 'eyJhbGciOiJFUzI1NksifQ.e30.AAAA' }
      const all = malformedRequests(good)
      const requests = takeSample(all, COUNT)
      expect(all.length).toBeGreaterThan(2000)
      expect(new Set(requests.map(({ bytes }) => bytes.toString('latin1'))).size).toBe(requests.length)
      const server = app.listen(0)
      const run = await runMalformed((server.address() as AddressInfo).port, requests).finally(() => {
        server.closeAllConnections()
        server.close()
      })
      expect(run).toMatchObject({ faults: [], sent: requests.length })
      expect(run.statuses['401']).toBeGreaterThan(150)
      // Malformed values of X-Forwarded-For are no addresses.
      const expected = ['first-refusal', 'client-address-unknown', 'trust-proxy-few']
      expect(log.filter(({ fields }) => !expected.includes(String(fields.event)))).toEqual([])
      expect(printed).toEqual([])
      await me(useCookies ? { Cookie: await logInForCookies() } : (await logIn()).accessToken).expect(200)
    }
  )
})
