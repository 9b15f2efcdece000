import { describe, expect, it } from '@jest/globals'
import { listen } from '../../../servers/http/listen.js'
import { ask, post } from '../../support/server-client.js'
import { logInAt, testVault } from '../../support/vault-app.js'
import { rounds } from '../../support/time-factor.js'
import { malformedVaultRequests, runMalformed, sampleOf } from '../../support/malformed.js'
import { walletOf } from '../../support/wallet.js'

const wallet = walletOf(1)
const COUNT = rounds(400, 10_000)

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
      const server = await listen({ port: 0, host: '127.0.0.1', variable: 'PORT' })
      server.serve(under.listener)
      const { port } = server
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
      expect(under.log().filter(({ level, code }) => level === 'error' && code !== 'ERR_BUSY')).toEqual([])
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
