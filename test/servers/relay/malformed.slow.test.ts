import { describe, expect, it } from '@jest/globals'
import { listen } from '../../../servers/http/listen.js'
import { logIn, requestChallenge, startTestRelay } from '../../support/relay-app.js'
import { relayGet, relayPost } from '../../support/relay-client.js'
import { ask } from '../../support/server-client.js'
import { rounds } from '../../support/time-factor.js'
import { malformedRelayRequests, runMalformed, sampleOf } from '../../support/malformed.js'
import { walletOf } from '../../support/wallet.js'

const wallet = walletOf(1)
const COUNT = rounds(400, 10_000)
const credentialJwt = 'eyJhbGciOiJFUzI1NksifQ.e30.AAAA'

describe('malformed requests to a relay', () => {
  it('are more than 2,000', () => {
    const good = { did: wallet.did, sig: '0x', accessToken: 'e30.e30.AA', refreshToken: 'R', credentialJwt }
    expect(malformedRelayRequests(good, wallet, '0'.repeat(128)).length).toBeGreaterThan(2_000)
  })

  it.each([{}, { CORS_ORIGINS: 'https://app.example', TRUST_PROXY: 'true' }])(
    'get no 5xx, no stack and no HTML, hang nowhere, log no error, and leave it alive: %j',
    async (env) => {
      const relay = await startTestRelay({ MAX_REQUESTS_PER_TIME_SLOT: '100000', ...env })
      const accessToken = await logIn(relay, wallet)
      const challenge = await requestChallenge(relay, wallet.did)
      const server = await listen({ port: 0, host: '127.0.0.1', variable: 'PORT' })
      server.serve(relay.listener)
      const { port } = server
      const good = { did: wallet.did, sig: '0x', accessToken, refreshToken: 'token', credentialJwt }
      const run = await runMalformed(port, sampleOf(malformedRelayRequests(good, wallet, challenge), COUNT))
      expect(run).toMatchObject({ faults: [], pages: 0 })
      expect(run.sent).toBeGreaterThanOrEqual(Math.min(COUNT, 2_000))
      expect(relay.log().filter(({ level }) => level === 'error')).toEqual([])
      const cid = await relayPost(server.url, accessToken, 'still alive')
      expect((await relayGet(server.url, accessToken, cid)).text).toBe('{"file":"still alive"}')
      expect((await ask(`${server.url}/ready`)).status).toBe(200)
      await server.stop()
      await relay.end()
    }
  )
})
