import { describe, expect, it } from '@jest/globals'
import { connect, type AddressInfo } from 'node:net'
import request from 'supertest'
import { cookieHeader, logIn, logInForCookies, setCookies, type TestTokens } from '../support/app-client.js'
import { START_SECONDS, testApp, type TestApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
/** The shortest key there is. */
const KEY = 'abcdefghijkl_MNOPQR-56'
const REPLAYED = 'idempotent-replayed'

const refresh = ({ app }: Pick<TestApp, 'app'>, refreshToken: string, key?: string) => {
  const sent = request(app).post('/refresh-token')
  return (key === undefined ? sent : sent.set('Idempotency-Key', key)).send({ refreshToken })
}
const tokensOf = (response: { body: unknown }): TestTokens => response.body as TestTokens

describe('Idempotency-Key at POST /refresh-token', () => {
  // Cause: the answer to a refresh was lost, the client repeated it, and was logged out.
  it('gives a repeat the same refresh token and a fresh access token, at any time until the session ends', async () => {
    const test = await testApp()
    const { refreshToken } = await logIn(test.app, wallet)
    const first = await refresh(test, refreshToken, KEY).expect(200)
    expect(first.headers).not.toHaveProperty(REPLAYED)
    test.clock.seconds = START_SECONDS + 6 * 86_400
    const again = await refresh(test, refreshToken, KEY).expect(200)
    expect(again.headers[REPLAYED]).toBe('true')
    expect(tokensOf(again).refreshToken).toBe(tokensOf(first).refreshToken)
    await request(test.app)
      .get('/me')
      .set('Authorization', `DIDAuth ${tokensOf(first).accessToken}`)
      .expect(401)
    await request(test.app)
      .get('/me')
      .set('Authorization', `DIDAuth ${tokensOf(again).accessToken}`)
      .expect(200)
    const next = await refresh(test, tokensOf(again).refreshToken, `${KEY}2`).expect(200)
    expect(next.headers).not.toHaveProperty(REPLAYED)
  })

  it.each([
    ['of 22 characters', KEY],
    ['of 128 characters', 'k'.repeat(128)],
    ['in quotes', `"${KEY}"`],
    ['of 128 characters in quotes', `"${'k'.repeat(128)}"`]
  ])('may be %s', async (_name, key) => {
    const test = await testApp()
    const { refreshToken } = await logIn(test.app, wallet)
    await refresh(test, refreshToken, key).expect(200)
    expect((await refresh(test, refreshToken, key).expect(200)).headers[REPLAYED]).toBe('true')
  })

  it.each([
    ['of 21 characters', 'k'.repeat(21)],
    ['of 21 characters in quotes', `"${'k'.repeat(21)}"`],
    ['of 129 characters', 'k'.repeat(129)],
    ['of another alphabet', `${KEY}.`],
    ['of base64', `${KEY}+/==`],
    ['with a blank in it', `${KEY} ${KEY}`],
    ['with a quote before it only', `"${KEY}`],
    ['with a quote behind it only', `${KEY}"`],
    ['in two pairs of quotes', `""${KEY}""`],
    ['in single quotes', `'${KEY}'`],
    ['that is empty', ''],
    ['that is two in one', `${KEY}, ${KEY}`]
  ])('%s is 400, and nothing is spent', async (_name, key) => {
    const test = await testApp()
    const { refreshToken } = await logIn(test.app, wallet)
    const refused = await refresh(test, refreshToken, key).set('Accept', 'application/problem+json').expect(400)
    expect(refused.body).toEqual({
      type: 'about:blank',
      title: 'Invalid Idempotency-Key',
      status: 400,
      code: 'ERR_IDEMPOTENCY_KEY'
    })
    await refresh(test, refreshToken).expect(200)
  })

  it('given in two headers is 400, also when both say the same, and nothing is spent', async () => {
    const test = await testApp()
    const { refreshToken } = await logIn(test.app, wallet)
    const body = JSON.stringify({ refreshToken })
    const head = [
      'POST /refresh-token HTTP/1.1',
      'Host: a',
      'Connection: close',
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      `Idempotency-Key: ${KEY}`,
      `Idempotency-Key: ${KEY}`
    ]
    const answer = await exchange(test, `${head.join('\r\n')}\r\n\r\n${body}`)
    expect(answer).toMatch(/^HTTP\/1.1 400 .*\r\n\r\nInvalid Idempotency-Key$/s)
    await refresh(test, refreshToken).expect(200)
  })

  it('works with cookies: a repeat sets both again, with what is left of the session as Max-Age', async () => {
    const test = await testApp({ useCookies: true })
    const cookies = await logInForCookies(test.app, wallet)
    const send = () => request(test.app).post('/refresh-token').set('Cookie', cookies).set('Idempotency-Key', KEY)
    const first = await send().expect(200, '')
    expect(first.headers).not.toHaveProperty(REPLAYED)
    test.clock.seconds = START_SECONDS + 4_800
    const again = await send().expect(200, '')
    expect(again.headers).toMatchObject({ [REPLAYED]: 'true', 'content-length': '0', 'cache-control': 'no-store' })
    const refreshCookie = /refresh-token=[^;]+/
    expect(refreshCookie.exec(cookieHeader(again))?.[0]).toBe(refreshCookie.exec(cookieHeader(first))![0])
    for (const cookie of setCookies(again)) expect(cookie).toContain('; Max-Age=600000;')
    await request(test.app).get('/me').set('Cookie', cookieHeader(again)).expect(200)
  })
})

/** Sends bytes as they are, and answers what came until the end. */
function exchange({ app }: TestApp, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const server = app.listen(0, () => {
      let received = ''
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
      socket.setEncoding('utf8').on('data', (chunk: string) => (received += chunk))
      socket.on('error', reject)
      socket.on('close', () => {
        server.close()
        resolve(received)
      })
      socket.write(text)
    })
  })
}
