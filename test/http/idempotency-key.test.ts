import { describe, expect, it } from '@jest/globals'
import { connect, type AddressInfo } from 'node:net'
import request from 'supertest'
import { memoryStore } from 'express-did-auth'
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

  it('refuses a repeat once the successor is used, and revokes nothing', async () => {
    const test = await testApp()
    const { refreshToken } = await logIn(test.app, wallet)
    const first = tokensOf(await refresh(test, refreshToken, KEY).expect(200))
    const second = tokensOf(await refresh(test, first.refreshToken, `${KEY}2`).expect(200))
    test.clock.seconds = START_SECONDS + 3_600
    const late = await refresh(test, refreshToken, KEY).expect(401, 'Invalid refresh token')
    expect(late.headers).not.toHaveProperty(REPLAYED)
    await refresh(test, second.refreshToken).expect(200)
  })

  it.each([
    ['another key', `${KEY}2`],
    ['no key', undefined]
  ])(
    'notices a second holder of the token with %s: 401, and after the grace the session is revoked',
    async (_name, key) => {
      const test = await testApp()
      const { refreshToken } = await logIn(test.app, wallet)
      const first = tokensOf(await refresh(test, refreshToken, KEY).expect(200))
      await refresh(test, refreshToken, key).expect(401, 'Invalid refresh token')
      test.clock.seconds = START_SECONDS + 11
      await refresh(test, refreshToken, key).expect(401, 'Refresh token used twice: session revoked')
      await refresh(test, first.refreshToken, `${KEY}3`).expect(401, 'Invalid refresh token')
    }
  )

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

  it('is the same key with quotes and without', async () => {
    const test = await testApp()
    const { refreshToken } = await logIn(test.app, wallet)
    const first = await refresh(test, refreshToken, KEY).expect(200)
    const again = await refresh(test, refreshToken, `"${KEY}"`).expect(200)
    expect(tokensOf(again).refreshToken).toBe(tokensOf(first).refreshToken)
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

  it('gives 50 requests at once with one key the same successor, and one of them is no repeat', async () => {
    const test = await testApp()
    const { refreshToken } = await logIn(test.app, wallet)
    const server = test.app.listen(0)
    const answers = await Promise.all(
      Array.from({ length: 50 }, async () =>
        request(server).post('/refresh-token').set('Idempotency-Key', KEY).send({ refreshToken })
      )
    )
    server.close()
    expect(answers.map(({ status }) => status)).toEqual(Array<number>(50).fill(200))
    const successors = new Set(answers.map((answer) => tokensOf(answer).refreshToken))
    expect(successors.size).toBe(1)
    expect(answers.filter(({ headers }) => headers[REPLAYED] === undefined)).toHaveLength(1)
    await refresh(test, [...successors][0]!).expect(200)
  })

  it('gives 50 requests at once with a key each one winner', async () => {
    const test = await testApp()
    const { refreshToken } = await logIn(test.app, wallet)
    const server = test.app.listen(0)
    const answers = await Promise.all(
      Array.from({ length: 50 }, async (_, index) =>
        request(server)
          .post('/refresh-token')
          .set('Idempotency-Key', `${KEY}${String(index)}`)
          .send({ refreshToken })
      )
    )
    server.close()
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.filter(({ text }) => text === 'Invalid refresh token')).toHaveLength(49)
  })

  it('is worth nothing at another service with the same store and secret', async () => {
    const store = memoryStore()
    const [first, second] = [await testApp({ store }), await testApp({ store, serviceUrl: 'https://second.example' })]
    const { refreshToken } = await logIn(first.app, wallet)
    await refresh(first, refreshToken, KEY).expect(200)
    await refresh(second, refreshToken, KEY).expect(401, 'Invalid refresh token')
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
