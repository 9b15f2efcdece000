import { describe, expect, it, jest } from '@jest/globals'
import { serve } from '../../../servers/http/listen.js'
import { sampleOf } from '../../support/malformed-requests.js'
import { runMalformed } from '../../support/malformed-run.js'
import { malformedVaultRequests } from '../../support/malformed-vault-requests.js'
import { ask, post } from '../../support/server-client.js'
import { logInAt, testVault } from '../../support/vault-app.js'
import { walletOf } from '../../support/wallet.js'
import { scaled } from '../../support/time-factor.js'

const wallet = walletOf(1)
const COUNT = Number(process.env.MALFORMED_REQUESTS ?? 400)

jest.setTimeout(scaled(300_000 + COUNT * 50))

describe('malformed requests to a vault', () => {
  it('are more than 2,000', () => {
    const good = { did: wallet.did, sig: '0x', accessToken: 'e30.e30.AA', refreshToken: 'R', credentialJwt: 'a.b.c' }
    expect(malformedVaultRequests(good).length).toBeGreaterThan(2_000)
  })

  it.each([{}, { USE_COOKIES: 'true' }, { CORS_ORIGINS: 'https://app.example', TRUST_PROXY: 'true' }])(
    'get no 5xx, no stack and no HTML, hang nowhere, log no error, and leave it alive: %j',
    async (env) => {
      const vault = await testVault()
      const accessToken = await logInAt(vault.listener, wallet)
      const under = await testVault(env, { folder: vault.folder })
      let port = 0
      const server = await serve({ port: 0, host: '127.0.0.1', variable: 'PORT' }, (taken) => {
        port = taken
        return { listener: under.listener, release: () => Promise.resolve() }
      })
      const good = {
        did: wallet.did,
        sig: wallet.personalSign('another message'),
        accessToken,
        refreshToken: 'token',
        credentialJwt: 'eyJhbGciOiJFUzI1NksifQ.e30.AAAA'
      }
      const run = await runMalformed(port, sampleOf(malformedVaultRequests(good), COUNT))
      expect(run).toMatchObject({ faults: [], pages: 0 })
      expect(run.sent).toBeGreaterThanOrEqual(Math.min(COUNT, 2_000))
      // More than 8 long bodies of one user at once are refused, also where their client has disconnected.
      expect(under.log().filter(({ level, reason }) => level === 'error' && reason !== 'ERR_BUSY')).toEqual([])
      const headers = { Authorization: `DIDAuth ${accessToken}` }
      expect((await post(`${server.url}/alive`, { content: 'still' }, headers)).status).toBe(201)
      expect(await ask(`${server.url}/${wallet.did}/alive`)).toMatchObject({ status: 200, text: '["still"]' })
      expect((await ask(`${server.url}/ready`)).status).toBe(200)
      await server.stop()
      await under.close()
      await vault.close()
    }
  )
})
