import { beforeEach, describe, expect, it } from '@jest/globals'
import type { DidAuthClient } from 'express-did-auth/client'
import { expectClientError } from '../support/client-error.js'
import { sharedStorage, startClientService, type ClientService } from '../support/client-service.js'
import { resourceKey } from '../support/test-app.js'

const notes = 'https://notes.example.com'
const files = 'https://files.example.com'

let service: ClientService
let auth: DidAuthClient

beforeEach(async () => {
  service = await startClientService({ resources: [notes, files], resourceKeys: [resourceKey(1)] })
  auth = await service.signedIn()
})

const asked = (): number => service.count('/resource-token')

const claimsOf = (token: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>

describe('tokenFor', () => {
  it('asks for a token of the session once for all who wait, and again for another resource', async () => {
    const tokens = await Promise.all(Array.from({ length: 10 }, () => auth.tokenFor(notes)))
    expect(new Set(tokens).size).toBe(1)
    expect(asked()).toBe(1)
    expect(claimsOf(tokens[0]!)).toMatchObject({ aud: notes, sub: auth.session?.did, sid: auth.session?.sessionId })
    expect(claimsOf(await auth.tokenFor(files))).toMatchObject({ aud: files })
    expect(asked()).toBe(2)
  })

  it('keeps a token of 300 s until 30 s before its end', async () => {
    const token = await auth.tokenFor(notes)
    service.clock.seconds += 269
    expect(await auth.tokenFor(notes)).toBe(token)
    service.clock.seconds += 1
    expect(await auth.tokenFor(notes)).not.toBe(token)
  })

  it('never gives a refused token again, and asks once for all callers that had it', async () => {
    const refused = await auth.tokenFor(notes)
    const tokens = await Promise.all([auth.tokenFor(notes, refused), auth.tokenFor(notes, refused)])
    expect(tokens[0]).not.toBe(refused)
    expect(tokens[1]).toBe(tokens[0])
    expect(asked()).toBe(2)
  })

  it('asks again after a login, and fails after a log out', async () => {
    await auth.tokenFor(notes)
    await auth.logIn()
    expect(claimsOf(await auth.tokenFor(notes))).toMatchObject({ sid: auth.session?.sessionId })
    await auth.logOut()
    await expectClientError(auth.tokenFor(notes), { code: 'NOT_SIGNED_IN' })
    expect(asked()).toBe(2)
  })

  it('refreshes an access token that has ended first, and works after a reload', async () => {
    const storage = sharedStorage()
    await service.outdated({ storage })
    expect(claimsOf(await service.client({ storage }).tokenFor(notes))).toMatchObject({ aud: notes })
    expect(service.count('/refresh-token')).toBe(1)
  })

  it('asks again where the last request failed', async () => {
    service.lose('/resource-token')
    await expectClientError(auth.tokenFor(notes), { code: 'UNAVAILABLE' })
    service.intercept(() => undefined)
    expect(claimsOf(await auth.tokenFor(notes))).toMatchObject({ aud: notes })
  })

  it('fails for a resource that the service does not list, and keeps the session', async () => {
    await expectClientError(auth.tokenFor('https://other.example.com'), {
      code: 'PROTOCOL',
      status: 400,
      serverCode: 'ERR_RESOURCE'
    })
    expect(auth.session).toBeDefined()
  })

  it('refuses the token of another session, as another tab may have logged in with the same cookies', async () => {
    const other = await (await service.signedIn()).tokenFor(notes)
    service.interceptAnswer((exchange, response) =>
      exchange.path === '/resource-token' ? Response.json({ accessToken: other, expiresIn: 300 }) : response
    )
    await expectClientError(auth.tokenFor(notes), { code: 'NOT_SIGNED_IN' })
  })

  it('fails where the answer has no token', async () => {
    service.interceptAnswer((exchange, response) =>
      exchange.path === '/resource-token' ? Response.json({ accessToken: 1 }) : response
    )
    await expectClientError(auth.tokenFor(notes), { code: 'PROTOCOL' })
  })
})
