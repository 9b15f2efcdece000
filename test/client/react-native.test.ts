import { beforeEach, describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { RelayClient } from 'express-did-auth-client/relay'
import { readAtMost } from '../../src/client/wire/request.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { catchFailure, startServer } from '../support/fixtures/client-error.js'
import { setGlobals, startClientService } from '../support/servers/client-service.js'
import { startTestRelay } from '../support/servers/relay-app.js'
import { createWallet } from '../support/servers/vault-app.js'
import { createWatchedWallet } from '../support/fixtures/fixtures.js'

/** Removes a member of an object until the test is over. */
function remove(target: object, name: string): void {
  const descriptor = Object.getOwnPropertyDescriptor(target, name)!
  Reflect.deleteProperty(target, name)
  afterTest(() => void Object.defineProperty(target, name, descriptor))
}

/** Wraps fetch, so that responses have no stream, as in React Native. */
const withoutStreams =
  (fetch: typeof globalThis.fetch): typeof globalThis.fetch =>
  async (input, init) =>
    Object.defineProperty(await fetch(input, init), 'body', { value: undefined })

beforeEach(() => {
  for (const name of ['timeout', 'any']) remove(AbortSignal, name)
  remove(AbortSignal.prototype, 'throwIfAborted')
})

describe('React Native, which lacks functions of signals, and streams', () => {
  it('the client logs in, refreshes and logs out, and its calls obey a signal', async () => {
    const service = await startClientService()
    const auth = service.client({ fetch: withoutStreams(service.fetch) })
    await auth.logIn()
    service.clock.seconds += 700
    expect((await auth.fetch('/me')).status).toBe(200)
    expect(await auth.sessions()).toHaveLength(1)
    const aborted = AbortSignal.abort(new Error('closed'))
    await expect(auth.logIn({ signal: aborted })).rejects.toThrow('closed')
    await auth.logOut()
    expect(auth.session).toBeUndefined()
  })

  it('the relay client sends and opens', async () => {
    const relay = await startTestRelay()
    const url = await startServer(relay.listener)
    afterTest(relay.end)
    const wallet = createWatchedWallet(createWallet())
    const client = new RelayClient({ url, wallet, domain: 'relay.example', fetch: withoutStreams(fetch) })
    expect(await client.open(await client.send('The old oak'))).toBe('The old oak')
  })
})

it('React Native before 0.85 needs a polyfill of TextDecoder, which the table of runtimes names', async () => {
  const service = await startClientService()
  const page = readFileSync(new URL('../../src/client/README.md', import.meta.url), 'utf8')
  setGlobals({ TextDecoder: undefined })
  await expect(service.client().logIn()).rejects.toThrow('TextDecoder is not defined')
  expect(/^\| React Native \|.*$/m.exec(page)?.[0]).toContain('before 0.85 of `TextDecoder`')
})

describe('a body without a stream', () => {
  const bodyless = (headers: Record<string, string>): Response =>
    Object.defineProperty(new Response('abcde', { headers }), 'body', { value: undefined })

  it('is read up to the maximum', async () => {
    expect(Buffer.from(await readAtMost(5, bodyless({ 'Content-Length': '5' }))).toString()).toBe('abcde')
    expect(await readAtMost(5, new Response(null))).toHaveLength(0)
  })

  it('is refused before reading by its Content-Length, and after it without one', async () => {
    const response = bodyless({ 'Content-Length': '6' })
    await expect(readAtMost(5, response)).rejects.toMatchObject({ code: 'PROTOCOL', message: 'Too large' })
    expect(response.bodyUsed).toBe(false)
    await expect(readAtMost(4, bodyless({}))).rejects.toMatchObject({ code: 'PROTOCOL', message: 'Too large' })
  })
})

it('a fault of the caller is not reported as an unreachable service', async () => {
  const service = await startClientService()
  const claims = [{ claimType: 'age', claimValue: 5n as never }]
  expect(await catchFailure(service.client().signUp({ claims }))).toBeInstanceOf(TypeError)
})

it('a request ends after its time limit, also if fetch ignores the signal', async () => {
  const client = new RelayClient({
    url: 'http://127.0.0.1:1',
    wallet: createWatchedWallet(createWallet()),
    fetch: () => new Promise(() => undefined),
    timeoutSeconds: 0.01
  })
  await expect(client.send('x')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
})
