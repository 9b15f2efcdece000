import { describe, expect, it } from '@jest/globals'
import { createCookieHeader, setCookies, signUpChallenge, readCookieTokens } from '../support/servers/app-client.js'
import { breakableStore, testApp } from '../support/servers/test-app.js'
import { createLoginText, createNumberedWallet } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const SET = ['HttpOnly', 'Max-Age=604800', 'Path=/', 'SameSite=Strict', 'Secure']
const CLEARED = SET.filter((attribute) => !attribute.startsWith('Max-Age'))

/** Returns names and attributes of the cookies in a response, without values and dates. */
const readCookies = (response: { headers: Record<string, unknown> }): [string, string[]][] =>
  setCookies(response).map((cookie) => {
    const [pair = '', ...attributes] = cookie.split('; ')
    return [pair.split('=')[0]!, attributes.filter((one) => !one.startsWith('Expires=')).sort()]
  })

/** Creates an application with cookies, and returns those of a logged-in user. */
async function loggedIn(cookiePrefix: '' | '__Host-' = '') {
  const test = await testApp({ useCookies: true, cookiePrefix, sessionPath: '/session' })
  const Cookie = await test.logInForCookies()
  const send = (path: string, cookies = Cookie, body?: object) => test.post(path, body, { Cookie: cookies })
  return { ...test, Cookie, send, ...readCookieTokens(Cookie) }
}

describe.each(['', '__Host-'] as const)("cookies with the prefix '%s'", (prefix) => {
  const names = ['authorization', 'refresh-token'].map((name) => prefix + name)
  const both = (attributes: string[]) => names.map((name) => [name, attributes])

  it.each(['/auth', '/signup'])('are set by POST %s, which responds 200 without content', async (path) => {
    const { post, createSignedLogin, me } = await testApp({ useCookies: true, cookiePrefix: prefix })
    const response = await post(path, await createSignedLogin()).expect(200, '')
    expect(response.headers).toMatchObject({ 'content-length': '0', 'cache-control': 'no-store' })
    expect(readCookies(response)).toEqual(both(SET))
    await me({ Cookie: createCookieHeader(response) }).expect(200)
  })

  it('are replaced by a refresh and cleared by a logout, which ends the session', async () => {
    const { send, me, get, Cookie, accessToken, refreshToken } = await loggedIn(prefix)
    expect((await get('/session', { Cookie }).expect(200)).body).toMatchObject({ did: wallet.did })
    const refreshed = await send('/refresh-token').expect(200, '')
    expect(readCookies(refreshed)).toEqual(both(SET))
    const next = createCookieHeader(refreshed)
    expect(next).not.toContain(accessToken)
    expect(next).not.toContain(refreshToken)
    await me({ Cookie: next }).expect(200)
    const ended = await send('/logout', next).expect(200, '')
    expect(readCookies(ended)).toEqual(both(CLEARED))
    for (const cookie of setCookies(ended)) expect(cookie).toMatch(/^[\w-]+=; .*Expires=Thu, 01 Jan 1970 00:00:00 GMT/)
    await send('/refresh-token', next).expect(401, 'Invalid refresh token')
  })
})

describe('a login in cookie mode', () => {
  it('ends the session whose refresh cookie it replaces, after its proof was accepted', async () => {
    const { send, createSignedLogin, Cookie } = await loggedIn()
    await send('/auth', Cookie, { did: wallet.did, sig: `0x${'11'.repeat(65)}` }).expect(401)
    const refreshed = createCookieHeader(await send('/refresh-token').expect(200))
    const replaced = createCookieHeader(await send('/auth', refreshed, await createSignedLogin()).expect(200))
    await send('/refresh-token', refreshed).expect(401, 'Invalid refresh token')
    await send('/refresh-token', replaced).expect(200)
  })

  it.each(['refresh-token=unknown', 'refresh-token=a; refresh-token=b'])(
    'succeeds with the cookie %s',
    async (cookie) => {
      const { send, createSignedLogin } = await loggedIn()
      await send('/auth', cookie, await createSignedLogin(createNumberedWallet(2))).expect(200)
    }
  )

  it('succeeds while the store cannot end the other session, and logs that', async () => {
    const { store, state } = breakableStore('endSession')
    const test = await testApp({ useCookies: true, store })
    const Cookie = await test.logInForCookies()
    state.isBroken = true
    await test.post('/auth', await test.createSignedLogin(createNumberedWallet(2)), { Cookie }).expect(200)
    expect(JSON.stringify(test.log)).toContain('replaced-session')
  })
})

describe('cookie mode', () => {
  it('both cookies have the lifetime of the refresh token', async () => {
    const { post, createSignedLogin } = await testApp({ useCookies: true, userSessionDurationInHours: 0.25 })
    for (const cookie of setCookies(await post('/auth', await createSignedLogin())))
      expect(cookie).toContain('; Max-Age=900;')
  })

  // A page of a sibling domain can set a cookie with the plain name, but none with the prefix.
  it('cookies without the prefix are neither read nor counted', async () => {
    const { me, send, Cookie } = await loggedIn('__Host-')
    const plain = Cookie.replaceAll('__Host-', '')
    await me({ Cookie: plain }).expect(401, 'Missing access token')
    await send('/refresh-token', plain).expect(401, 'Invalid refresh token')
    await me({ Cookie: `authorization=x; ${Cookie}; authorization=y` }).expect(200)
  })

  it('the losing POST /refresh-token gets 401 and clears no cookie, within the grace period and later', async () => {
    const { send, clock } = await loggedIn()
    await send('/refresh-token').expect(200)
    for (const seconds of [0, 60]) {
      clock.seconds += seconds
      expect(setCookies(await send('/refresh-token').expect(401))).toEqual([])
    }
  })

  it('reads tokens from header and body if there is no cookie', async () => {
    const { me, refresh, logOut, accessToken, refreshToken } = await loggedIn()
    await me(accessToken).expect(200)
    await refresh(refreshToken).expect(200, '')
    await logOut(accessToken).expect(200, '')
  })

  it('prefers the cookie to header and body', async () => {
    const { me, logInForCookies, Cookie } = await loggedIn()
    const { accessToken } = readCookieTokens(await logInForCookies(createNumberedWallet(2)))
    const Authorization = `DIDAuth ${accessToken}`
    expect((await me({ Cookie, Authorization }).expect(200)).body.user).toEqual({ did: wallet.did })
    await me({ Cookie: 'authorization=garbage', Authorization }).expect(401, 'Invalid access token')
  })

  it.each([
    ['twice the same', (good: string) => `${good}; ${good}`],
    ['a good one and an empty one', (good: string) => `${good}; authorization=; refresh-token=`],
    ['a foreign one first, without a blank between', (good: string) => `authorization=x; refresh-token=x;${good}`]
  ])('responds 401 to duplicate cookies: %s', async (_name, spoil) => {
    const { me, send, Cookie, refreshToken } = await loggedIn()
    const spoilt = spoil(Cookie)
    await me({ Cookie: spoilt }).expect(401, 'Duplicate cookie')
    await send('/refresh-token', spoilt, { refreshToken }).expect(401, 'Duplicate cookie')
    await send('/refresh-token').expect(200)
  })

  // Cause: a stale cookie at another path hid each new one, so that every request was refused after each login.
  it.each([
    ['/me?a=/b', ['/', '/me', '/me/']],
    ['/me/', ['/', '/me', '/me/']]
  ])('deletes both cookies at the levels of %s with the 401 for duplicates', async (path, paths) => {
    const { get, Cookie } = await loggedIn()
    const Spoilt = `${Cookie}; authorization=x`
    const both = paths.flatMap((one) => [`authorization=; Path=${one};`, `refresh-token=; Path=${one};`])
    for (const site of [{}, { 'Sec-Fetch-Site': 'same-origin' }]) {
      const cookies = setCookies(await get(path, { Cookie: Spoilt, ...site }).expect(401, 'Duplicate cookie'))
      expect(cookies.map((cookie) => /^.*?; Path=[^;]*;/.exec(cookie)?.[0])).toEqual(both)
      for (const cookie of cookies) expect(cookie).toContain('; Expires=Thu, 01 Jan 1970 00:00:00 GMT; ')
    }
    for (const site of ['cross-site', 'same-site']) {
      const foreign = await get(path, { Cookie: Spoilt, 'Sec-Fetch-Site': site }).expect(401, 'Duplicate cookie')
      expect(setCookies(foreign)).toEqual([])
    }
  })

  it('deletes cookies below a mount path, and none with another refusal', async () => {
    const { post, get } = await testApp({ useCookies: true }, { prefix: '/api/v1' })
    const Cookie = 'refresh-token=y; refresh-token=x'
    const answer = await post('/api/v1/refresh-token', undefined, { Cookie }).expect(401, 'Duplicate cookie')
    const paths = setCookies(answer).map((cookie) => /Path=([^;]*)/.exec(cookie)![1]!)
    expect(new Set(paths)).toEqual(
      new Set(['/', '/api', '/api/', '/api/v1', '/api/v1/', '/api/v1/refresh-token', '/api/v1/refresh-token/'])
    )
    expect(setCookies(await get('/api/v1/me', { Cookie: 'authorization=x' }).expect(401))).toEqual([])
  })

  it.each([
    'theme=dark; ',
    'authorization2=x; xauthorization=y; ',
    'authorizationX; ',
    'Authorization=another; ',
    '=; ;; ',
    'a=authorization=x; '
  ])('ignores other cookies: %s', async (others) => {
    const { me, Cookie } = await loggedIn()
    await me({ Cookie: others + Cookie }).expect(200)
  })

  it.each(['', 'j:{"a":1}', 'j:["a"]', 'j:null', 's:signed.signature', '%', '%E0%A4%A', 'a'.repeat(5000), '__proto__'])(
    'responds 401 to a cookie with the value %.20s',
    async (value) => {
      const { me, post } = await testApp({ useCookies: true })
      await me({ Cookie: `authorization=${value}` }).expect(401, 'Invalid access token')
      const Cookie = `refresh-token=${value}`
      await post('/refresh-token', undefined, { Cookie }).expect(401, 'Invalid refresh token')
    }
  )

  it('responds 401 if the two cookies are swapped', async () => {
    const { me, send, accessToken, refreshToken } = await loggedIn()
    const swapped = `authorization=${refreshToken}; refresh-token=${accessToken}`
    await me({ Cookie: swapped }).expect(401, 'Invalid access token')
    await send('/refresh-token', swapped).expect(401, 'Invalid refresh token')
  })

  it('keeps a Set-Cookie of the host', async () => {
    const { app, post } = await testApp(
      { useCookies: true },
      {
        before: (host) =>
          host.use((_req, res, next) => {
            res.cookie('theme', 'dark')
            next()
          })
      }
    )
    const sig = wallet.personalSign(createLoginText('service.example', await signUpChallenge(app, wallet.did)))
    const response = await post('/signup', { did: wallet.did, sig }).expect(200)
    expect(readCookies(response).map(([name]) => name)).toEqual(['theme', 'authorization', 'refresh-token'])
  })
})
