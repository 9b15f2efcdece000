import { describe, expect, it } from '@jest/globals'
import { readIdempotencyKey } from '../../src/http/refresh.js'
import { createCookieHeader, setCookies, readCookieTokens } from '../support/servers/app-client.js'
import { refusal } from '../support/fixtures/refusal.js'
import { testApp } from '../support/servers/test-app.js'

/** Shortest allowed key. */
const KEY = 'abcdefghijkl_MNOPQR-56'
const REPLAYED = 'idempotent-replayed'

describe('Idempotency-Key at POST /refresh-token', () => {
  // Cause: the response to a refresh was lost; the client repeated the refresh, and was logged out.
  it('gives a repeat the same refresh token and a new access token until the session ends', async () => {
    const { logIn, refresh, me, clock } = await testApp()
    const { refreshToken } = await logIn()
    const send = async (token: string, key: string) => {
      const { body, headers } = await refresh(token, { 'Idempotency-Key': key }).expect(200)
      return { ...body, replayed: headers[REPLAYED] }
    }
    const first = await send(refreshToken, KEY)
    clock.seconds += 6 * 86_400
    const again = await send(refreshToken, KEY)
    expect([first.replayed, again.replayed, again.refreshToken]).toEqual([undefined, 'true', first.refreshToken])
    await me(first.accessToken).expect(401)
    await me(again.accessToken).expect(200)
    expect((await send(again.refreshToken, `${KEY}2`)).replayed).toBeUndefined()
  })

  it('causes 400 if it is invalid, and no token is consumed', async () => {
    const { logIn, refresh } = await testApp()
    const { refreshToken } = await logIn()
    const headers = { 'Idempotency-Key': `${KEY}.`, Accept: 'application/problem+json' }
    const { body } = await refresh(refreshToken, headers).expect(400)
    expect(body).toMatchObject({ title: 'Invalid Idempotency-Key', code: 'ERR_IDEMPOTENCY_KEY' })
    await refresh(refreshToken).expect(200)
  })

  it('works with cookies: a repeat sets both again, with the remaining session time as Max-Age', async () => {
    const { logInForCookies, post, me, clock } = await testApp({ useCookies: true })
    const headers = { Cookie: await logInForCookies(), 'Idempotency-Key': KEY }
    const send = () => post('/refresh-token', undefined, headers).expect(200, '')
    const first = await send()
    expect(first.headers).not.toHaveProperty(REPLAYED)
    clock.seconds += 4_800
    const again = await send()
    expect(again.headers).toMatchObject({ [REPLAYED]: 'true', 'content-length': '0', 'cache-control': 'no-store' })
    const [one, other] = [first, again].map((answer) => readCookieTokens(createCookieHeader(answer)).refreshToken)
    expect(other).toBe(one)
    for (const cookie of setCookies(again)) expect(cookie).toContain('; Max-Age=600000;')
    await me({ Cookie: createCookieHeader(again) }).expect(200)
  })
})

describe('readIdempotencyKey', () => {
  const read = (value: string | undefined) => readIdempotencyKey({ headers: { 'idempotency-key': value } })

  it.each([KEY, 'k'.repeat(128)])('accepts %s, in quotes or not', (key) =>
    expect([read(key), read(`"${key}"`), read(undefined)]).toEqual([key, key, undefined])
  )

  it.each([
    ['of 21 characters', 'k'.repeat(21)],
    ['of 21 characters in quotes', `"${'k'.repeat(21)}"`],
    ['of 129 characters', 'k'.repeat(129)],
    ['of base64', `${KEY}+/==`],
    ['with a blank in it', `${KEY} ${KEY}`],
    ['with a quote before it only', `"${KEY}`],
    ['with a quote behind it only', `${KEY}"`],
    ['in two pairs of quotes', `""${KEY}""`],
    ['in single quotes', `'${KEY}'`],
    ['that is empty', ''],
    ['that is two in one, as Node joins two headers', `${KEY}, ${KEY}`]
  ])('refuses a key %s', (_name, key) => expect(() => read(key)).toThrow(refusal('ERR_IDEMPOTENCY_KEY')))
})
