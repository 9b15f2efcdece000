import { describe, expect, it } from '@jest/globals'
import { listen } from '../../../servers/http/listen.js'
import {
  malformedRelayRequests,
  malformedRequests,
  malformedVaultRequests,
  runMalformed,
  takeSample
} from '../../support/faults/malformed.js'
import { logIn as relayLogIn, requestChallenge, startTestRelay } from '../../support/servers/relay-app.js'
import { relayGet, relayPost } from '../../support/servers/relay-client.js'
import { ask, askUntilReady, logIn, me, post } from '../../support/servers/server-client.js'
import { testAuthServer } from '../../support/servers/test-app.js'
import { rounds } from '../../support/fixtures/time-factor.js'
import { logInAt, testVault } from '../../support/servers/vault-app.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const COUNT = rounds(400, 10_000)
const sig = wallet.personalSign('another message')
const credentialJwt = 'eyJhbGciOiJFUzI1NksifQ.e30.AAAA'
const createValidFields = (accessToken: string) => ({
  did: wallet.did,
  sig,
  accessToken,
  refreshToken: 'token',
  credentialJwt
})

/** Functions that start each server. `isAlive` uses it as a client does. */
const serverStarters = {
  auth: async (env: Record<string, string>) => {
    const { listener, log, close } = await testAuthServer(env)
    const isAlive = async (url: string): Promise<boolean> => {
      if ('USE_COOKIES' in env) return true
      const { accessToken } = await logIn(url, wallet, 'auth.example')
      return (await me(url, accessToken)).status === 200
    }
    return { listener, log, close, isAlive, requests: malformedRequests(createValidFields('e30.e30.AA')) }
  },
  relay: async (env: Record<string, string>) => {
    const relay = await startTestRelay(env)
    const token = await relayLogIn(relay, wallet)
    const requests = malformedRelayRequests(createValidFields(token), wallet, await requestChallenge(relay, wallet.did))
    const isAlive = async (url: string): Promise<boolean> =>
      (await relayGet(url, token, await relayPost(url, token, 'alive'))).text === '{"file":"alive"}'
    return { ...relay, close: relay.end, isAlive, requests }
  },
  vault: async (env: Record<string, string>) => {
    // This vault answers tokens in bodies, even if the vault under test uses cookies.
    const loginVault = await testVault()
    const accessToken = await logInAt(loginVault.listener, wallet)
    const vault = await testVault(env, { folder: loginVault.folder })
    const close = async (): Promise<void> => {
      await vault.close()
      await loginVault.close()
    }
    const isAlive = async (url: string): Promise<boolean> => {
      const headers = { Authorization: `DIDAuth ${accessToken}` }
      const { status } = await post(`${url}/alive`, { content: 'still' }, headers)
      return status === 201 && (await ask(`${url}/${wallet.did}/alive`)).text === '["still"]'
    }
    return { ...vault, close, isAlive, requests: malformedVaultRequests(createValidFields(accessToken)) }
  }
}

const cookies = { USE_COOKIES: 'true' }
const cors = { CORS_ORIGINS: 'https://app.example', TRUST_PROXY: 'true' }

describe('malformed requests', () => {
  it.each([
    ['auth', {}],
    ['auth', cookies],
    ['auth', cors],
    ['relay', {}],
    ['relay', cors],
    ['vault', {}],
    ['vault', cookies],
    ['vault', cors]
  ] as const)('cause at %s no 5xx, stack, HTML, logged error or hang, and leave it running: %j', async (name, env) => {
    const { listener, log, close, isAlive, requests } = await serverStarters[name]({
      MAX_REQUESTS_PER_TIME_SLOT: '100000',
      ...env
    })
    expect(requests.length).toBeGreaterThan(2_000)
    const server = await listen({ port: 0, host: '127.0.0.1', variable: 'PORT' })
    server.serve(listener)
    const run = await runMalformed(server.port, takeSample(requests, COUNT))
    expect(run).toMatchObject({ faults: [], pages: 0 })
    expect(run.sent).toBeGreaterThanOrEqual(Math.min(COUNT, 2_000))
    // The vault refuses more than 8 concurrent long bodies of a user, including those of disconnected clients.
    const allowed = name === 'vault' ? 'ERR_BUSY' : 'none'
    expect(log().filter(({ level, code }) => level === 'error' && code !== allowed)).toEqual([])
    expect(log().filter(({ event }) => event === 'request').length).toBeGreaterThan(200)
    expect(await isAlive(server.url)).toBe(true)
    await askUntilReady(server.url)
    await server.stop()
    await close()
  })
})
