import { beforeEach, describe, expect, it, jest } from '@jest/globals'
import { DidAuthError } from 'express-did-auth'
import type { DidAuthClient, DidAuthClientError } from 'express-did-auth-client'
import { catchFailure } from '../support/fixtures/client-error.js'
import {
  alice,
  requestStatus,
  type ClientService,
  fakeClientTime,
  fakeLocks,
  openTabs,
  setGlobals,
  createSharedStorage,
  startClientService
} from '../support/servers/client-service.js'
import { until } from '../support/fixtures/until.js'
import { createThrowing } from '../support/fixtures/refusal.js'

let service: ClientService

beforeEach(async () => {
  setGlobals({ navigator: { locks: fakeLocks() } })
  service = await startClientService()
})

const refreshes = (): number => service.count('/refresh-token')

/** Uses the refresh token of the last response, like a second holder. */
async function refreshElsewhere(tokens = service.exchanges.at(-1)!.answer!): Promise<{ status: number; text: string }> {
  const { refreshToken } = JSON.parse(tokens) as { refreshToken: string }
  const headers = { 'Content-Type': 'application/json' }
  const body = JSON.stringify({ refreshToken })
  const answer = await fetch(`${service.url}/refresh-token`, { method: 'POST', headers, body })
  return { status: answer.status, text: await answer.text() }
}

describe('DidAuthClient keeps the session if the refresh', () => {
  it.each(['accessToken', 'refreshToken'])('gets a response without %s', async (missing) => {
    const auth = await service.outdated()
    service.interceptAnswer(async ({ path }, response) => {
      if (path !== '/refresh-token') return response
      return Response.json({ ...((await response.json()) as object), [missing]: undefined })
    })
    expect(await catchFailure(auth.fetch('/me'))).toMatchObject({ code: 'UNAVAILABLE', cause: { code: 'PROTOCOL' } })
    service.interceptAnswer((_, response) => response)
    expect((await auth.fetch('/me')).status).toBe(200)
  })

  const page = new Response('<html>Sign in to the network</html>', { headers: { 'Content-Type': 'text/html' } })
  const problem = (status: number, code: string, headers = {}): Response =>
    new Response(JSON.stringify({ title: code, code }), { status, headers })

  it.each([
    ['no connection', createThrowing(new TypeError('fetch failed')), 3],
    ['status 503', () => problem(503, 'ERR_STORE', { 'Retry-After': '2' }), 3],
    ['status 429 for a minute', () => problem(429, 'ERR_TOO_MANY_REQUESTS', { 'Retry-After': '60' }), 1],
    ['a page in place of JSON', () => page.clone(), 1],
    ['a page with status 401', () => new Response('<html>', { status: 401 }), 1],
    ['another 401', () => problem(401, 'ERR_ACCESS_TOKEN'), 1],
    ['status 403', () => problem(403, 'ERR_CROSS_ORIGIN'), 1],
    ['other JSON', () => Response.json({ accessToken: 'a.b.c', refreshToken: 1 }), 1],
    ['tokens without a user', () => Response.json({ accessToken: 'a.e30.c', refreshToken: 'b' }), 1]
  ])('%s', async (_name, answer, tries) => {
    fakeClientTime(500, 1_000, 2_000)
    const auth = await service.outdated()
    service.intercept(({ path }) => (path === '/refresh-token' ? answer() : undefined))
    const error = await catchFailure(auth.fetch('/me'))
    expect(error).toMatchObject({ code: 'UNAVAILABLE' })
    expect(error).toMatchObject({ retryable: true, userMessage: expect.stringContaining('try again') })
    expect(refreshes()).toBe(tries)
    expect(auth.session).toBeDefined()
    service.intercept(() => undefined)
    expect(await requestStatus(auth)).toBe(200)
  })

  it('gets no response within 8 s, three times', async () => {
    const time = fakeClientTime(500, 1_000)
    const auth = await service.outdated()
    service.silence('/refresh-token')
    const failed = catchFailure(auth.fetch('/me'))
    for (let tries = 1; tries <= 3; tries += 1) {
      await until(() => refreshes() === tries)
      time.endTimeouts(8_000)
    }
    expect(await failed).toMatchObject({ code: 'UNAVAILABLE' })
    expect(auth.session).toBeDefined()
  })

  it('is not needed because the token is still valid', async () => {
    fakeClientTime(500, 1_000)
    const auth = await service.signedIn()
    service.clock.seconds += 580
    service.lose('/refresh-token')
    expect(await requestStatus(auth)).toBe(200)
  })
})

describe('DidAuthClient ends the session if the refresh token', () => {
  // Skips the wait of 2 s in which another tab could store newer tokens.
  beforeEach(() => void fakeClientTime(50, 200, 500, 1_000))

  const expectSessionEnd = async (
    config: Parameters<typeof startClientService>[0],
    change: (auth: DidAuthClient) => Promise<void>
  ) => {
    service = await startClientService(config)
    const onSignedOut = jest.fn()
    const storage = createSharedStorage()
    const auth = await service.outdated({ storage, onSignedOut })
    await change(auth)
    const error = await catchFailure(auth.fetch('/me'))
    expect(error).toMatchObject({ code: 'SESSION_ENDED' })
    expect(auth.session).toBeUndefined()
    expect(onSignedOut).toHaveBeenCalledTimes(1)
    expect([...storage.values.keys()]).toEqual([])
    return error as DidAuthClientError
  }

  it('was revoked', async () => {
    const error = await expectSessionEnd({}, async () => {
      await service.requireDid.sessions.revokeAll(alice.did)
    })
    expect(error).toMatchObject({ reason: 'revoked', status: 401, serverCode: 'ERR_REFRESH_TOKEN' })
  })

  it('expired at a service that refuses tokens older than a week', async () => {
    const error = await expectSessionEnd({}, async () => void (service.clock.seconds += 8 * 86_400))
    expect(error).toMatchObject({ reason: 'expired', userMessage: 'Your session has expired. Log in again.' })
  })

  it('is refused by business logic, whose message it shows', async () => {
    const refreshBusinessLogic = createThrowing(
      new DidAuthError('ERR_BUSINESS_LOGIC', { message: 'Your account is locked' })
    )
    const error = await expectSessionEnd({ refreshBusinessLogic }, async () => undefined)
    expect(error).toMatchObject({ reason: 'revoked', userMessage: 'Your account is locked' })
  })

  it('was used by a second holder first, with another key', async () => {
    const error = await expectSessionEnd({}, async () => {
      expect((await refreshElsewhere()).status).toBe(200)
      service.clock.seconds += 60
    })
    expect(error).toMatchObject({ reason: 'reused', serverCode: 'ERR_REFRESH_TOKEN_REUSED' })
  })

  it.each([
    ['somebody else used it first', 200, () => undefined],
    [
      'the answer to the first try was lost',
      undefined,
      () =>
        service.intercept(({ path }) => {
          if (path !== '/refresh-token') return undefined
          service.intercept(() => undefined)
          throw new TypeError('fetch failed')
        })
    ],
    [
      'the answer to an earlier refresh was lost',
      undefined,
      async (auth: DidAuthClient) => {
        service.lose('/refresh-token')
        await expect(auth.fetch('/me')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
        service.intercept(() => undefined)
      }
    ]
  ])('was replaced: if %s, POST /logout responds %p', async (_name, expected, prepare) => {
    let stolen = ''
    const error = await expectSessionEnd({}, async (auth) => {
      stolen = (await refreshElsewhere()).text
      await prepare(auth)
    })
    expect(error).toMatchObject({ reason: 'revoked', serverCode: 'ERR_REFRESH_TOKEN' })
    expect(service.exchanges.find(({ path }) => path === '/logout')?.status).toBe(expected)
    // The session of the thief has ended too.
    expect((await refreshElsewhere(stolen)).status).toBe(expected === undefined ? 200 : 401)
  })

  it('was replaced, but not if another tab has newer tokens by then', async () => {
    const storage = createSharedStorage()
    const [slow, fast] = await openTabs(service, 2, storage)
    service.clock.seconds += 700
    service.interceptAnswer(async ({ path, headers }, response) => {
      if (path !== '/refresh-token' || headers.get('x-fast') !== null) return response
      service.interceptAnswer((_, other) => other)
      setGlobals({ navigator: undefined })
      expect(await requestStatus(fast!)).toBe(200)
      setGlobals({ navigator: { locks: fakeLocks() } })
      return Response.json({ title: 'Invalid refresh token', code: 'ERR_REFRESH_TOKEN' }, { status: 401 })
    })
    expect(await requestStatus(slow!)).toBe(200)
    expect(slow!.session).toBeDefined()
  })
})

describe('the time of a refresh by DidAuthClient', () => {
  it('is measured from the receipt of the token, independent of the wall clock', async () => {
    const now = jest.spyOn(Date, 'now').mockReturnValue(5_000_000)
    const auth = await service.signedIn({ clock: undefined })
    now.mockReturnValue(9_000_000)
    expect(await requestStatus(auth)).toBe(200)
    expect(refreshes()).toBe(0)
  })

  it.each([
    [570, 600, 0],
    [571, 600, 1],
    [16, 20, 0],
    [17, 20, 1]
  ])('comes after %d s of %d: %d refreshes', async (age, accessTokenExpirationTimeInSeconds, expected) => {
    service = await startClientService({ accessTokenExpirationTimeInSeconds })
    const auth = await service.signedIn()
    service.clock.seconds += age
    expect(await requestStatus(auth)).toBe(200)
    expect(refreshes()).toBe(expected)
  })

  it('comes once for a hundred requests whose token expired only at the service', async () => {
    const auth = await service.outdated({ clock: { nowSeconds: () => 0 } })
    const statuses = await Promise.all(Array.from({ length: 100 }, () => requestStatus(auth)))
    expect(statuses).toEqual(Array(100).fill(200))
    expect(refreshes()).toBe(1)
  })

  it('continues for the others when one caller aborts', async () => {
    const auth = await service.outdated()
    const controller = new AbortController()
    const aborted = catchFailure(auth.fetch('/me', { signal: controller.signal }))
    const other = requestStatus(auth)
    controller.abort(new Error('The page was left'))
    expect(await aborted).toEqual(new Error('The page was left'))
    expect(await other).toBe(200)
    expect(refreshes()).toBe(1)
  })
})
