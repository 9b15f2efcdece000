import { describe, expect, it } from '@jest/globals'
import { listen } from '../../../servers/http/listen.js'
import { testAuthServer } from '../../support/test-app.js'
import { ask, logIn, me } from '../../support/server-client.js'
import { rounds } from '../../support/time-factor.js'
import { malformedRequests, runMalformed, sampleOf } from '../../support/malformed.js'
import { walletOf } from '../../support/wallet.js'

const wallet = walletOf(1)
const COUNT = rounds(300, 10_000)

describe('malformed requests to a server', () => {
  it.each([{}, { USE_COOKIES: 'true' }, { CORS_ORIGINS: 'https://app.example', TRUST_PROXY: 'true' }])(
    'get no 5xx, no stack and no HTML, hang nowhere, log no error, and leave it alive: %j',
    async (env) => {
      const { listener, log } = await testAuthServer({ MAX_REQUESTS_PER_TIME_SLOT: '100000', ...env })
      const server = await listen({ port: 0, host: '127.0.0.1', variable: 'PORT' })
      server.serve(listener)
      const { port } = server
      const tokens = { accessToken: 'e30.e30.AA', refreshToken: 'token' }
      const sig = wallet.personalSign('another message')
      const good = { did: wallet.did, sig, ...tokens, credentialJwt: 'eyJhbGciOiJFUzI1NksifQ.e30.AAAA' }
      const run = await runMalformed(port, sampleOf(malformedRequests(good), COUNT))
      expect(run).toMatchObject({ faults: [], pages: 0 })
      expect(run.sent).toBeGreaterThanOrEqual(300)
      expect(log().filter(({ level }) => level === 'error')).toEqual([])
      expect(log().filter(({ event }) => event === 'request').length).toBeGreaterThan(200)
      if (!('USE_COOKIES' in env)) {
        const { accessToken } = await logIn(server.url, wallet, 'auth.example')
        expect((await me(server.url, accessToken)).status).toBe(200)
      }
      expect((await ask(`${server.url}/ready`)).status).toBe(200)
      await server.stop()
    }
  )
})
