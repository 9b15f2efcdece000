import { describe, it } from '@jest/globals'
import request from 'supertest'
import { logIn, logInForCookies, signedLogin } from '../support/app-client.js'
import { testApp, type TestApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const CROSS_SITE = { 'Sec-Fetch-Site': 'cross-site' }
const SAME_SITE = { 'Sec-Fetch-Site': 'same-site' }

const image = (test: TestApp, path: string, headers: Record<string, string> = CROSS_SITE) =>
  request(test.app).get(path).set(headers)

describe('requests that a page of another site makes a browser send', () => {
  // Cause: a page with 200 images of /request-auth/<did> locked its visitor out for ten minutes.
  it('lock their visitor out of nothing: 200 images are counted apart', async () => {
    const test = await testApp()
    const path = `/request-auth/${wallet.did}`
    for (let number = 0; number < 200; number += 1) await image(test, path).expect(200)
    await image(test, path).expect(429)
    await request(test.app).get(path).set('Sec-Fetch-Site', 'same-origin').expect(200)
    await logIn(test.app, wallet)
  })

  it.each([
    ['cross-site', CROSS_SITE],
    ['same-site, which a sibling domain is', SAME_SITE],
    ['cross-site with an origin that is not trusted', { ...CROSS_SITE, Origin: 'https://evil.example' }],
    ['cross-site with the origin null', { ...CROSS_SITE, Origin: 'null' }]
  ])('are those that say %s', async (_name, headers) => {
    const test = await testApp({ maxRequestsPerTimeSlot: 1 })
    const path = `/request-auth/${wallet.did}`
    for (let number = 0; number < 10; number += 1) await image(test, path, headers).expect(200)
    await image(test, path, headers).expect(429)
    await request(test.app).get(path).expect(200)
  })

  it.each<[string, Record<string, string>]>([
    ['same-origin', { 'Sec-Fetch-Site': 'same-origin' }],
    ['none: an address that was typed', { 'Sec-Fetch-Site': 'none' }],
    ['cross-site with a trusted origin', { ...CROSS_SITE, Origin: 'https://app.example' }],
    ['same-site with the origin of the service', { ...SAME_SITE, Origin: 'https://service.example' }],
    ['nothing: it is no browser', {}]
  ])('are not those that say %s', async (_name, headers) => {
    const test = await testApp({ maxRequestsPerTimeSlot: 1, trustedOrigins: ['https://app.example'] })
    const path = `/request-auth/${wallet.did}`
    for (let number = 0; number < 10; number += 1) await image(test, path, headers).expect(200)
    await request(test.app).get(path).expect(429)
    await image(test, path).expect(200)
  })

  it("use up nothing of the visitor's own quota with safe methods", async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: 2, useCookies: true })
    const cookies = await logInForCookies(test.app, wallet)
    const me = (headers: Record<string, string>) => request(test.app).get('/me').set('Cookie', cookies).set(headers)
    await me(SAME_SITE).expect(200)
    await me(SAME_SITE).expect(200)
    await me(SAME_SITE).expect(429, 'Too many requests')
    await request(test.app).head('/me').set('Cookie', cookies).set(CROSS_SITE).expect(429)
    await me({ 'Sec-Fetch-Site': 'same-origin' }).expect(200)
    await me({}).expect(200)
    await me({}).expect(429)
  })

  it("count as the user's own with unsafe methods, which a cookie without a trusted origin does not get through", async () => {
    const test = await testApp(
      { maxRequestsPerTimeSlot: 2 },
      {
        after: (app, requireDid) =>
          app.post('/notes', requireDid, (_req, res) => {
            res.send('noted')
          })
      }
    )
    const { accessToken } = await logIn(test.app, wallet)
    const authorization = `DIDAuth ${accessToken}`
    const note = () => request(test.app).post('/notes').set('Authorization', authorization).set(CROSS_SITE)
    await note().expect(200)
    await note().expect(200)
    await note().expect(429)
    await request(test.app).get('/me').set('Authorization', authorization).expect(429)
  })

  it('take nothing from the budgets of proofs and logins of their visitor', async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: 1 })
    const bad = { did: wallet.did, sig: walletOf(2).personalSign('anything') }
    // The naming budget of the foreign page is 10: what comes after is counted against its proofs alone.
    for (let number = 0; number < 100; number += 1) await request(test.app).post('/auth').set(CROSS_SITE).send(bad)
    const login = await signedLogin(test.app, wallet)
    await request(test.app).post('/auth').set(CROSS_SITE).send(login).expect(429)
    await request(test.app).post('/auth').send(login).expect(200)
  })
})
