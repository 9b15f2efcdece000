import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { START_SECONDS } from '../support/test-app.js'
import { alice, startClientService, type ClientService } from '../support/client-service.js'

let service: ClientService

beforeEach(async () => {
  service = await startClientService()
})

afterEach(async () => {
  await service.close()
})

describe('DidAuthClient.logIn', () => {
  it('opens a session, with which fetch reaches guarded routes', async () => {
    const auth = service.client()
    const session = await auth.logIn()
    expect(session).toEqual({ did: alice.did, sessionId: expect.any(String), expiresAt: START_SECONDS + 600 })
    expect(auth.session).toBe(session)
    const answer = await auth.fetch('/me')
    expect(await answer.json()).toMatchObject({ user: { did: alice.did } })
  })

  it('refreshes before the token ends, and once where it has ended', async () => {
    const auth = service.client()
    await auth.logIn()
    service.clock.seconds += 571
    expect((await auth.fetch('/me')).status).toBe(200)
    expect(service.paths()).toEqual(['/request-auth', '/auth', '/refresh-token', '/me'])
    expect(auth.session?.expiresAt).toBe(START_SECONDS + 1171)
  })
})
