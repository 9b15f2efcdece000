import { beforeEach, describe, expect, it } from '@jest/globals'
import { memoryStore, setupDidAuth } from 'express-did-auth'
import express from 'express'
import { refusal } from '../support/fixtures/refusal.js'
import { testApp, type TestApp } from '../support/servers/test-app.js'

const path = '/.well-known/ended-sessions'

let app: TestApp
const events: { type: string; sessionId?: string }[] = []
beforeEach(async () => {
  events.length = 0
  app = await testApp({ endedSessions: true, onSecurityEvent: (event) => events.push(event) })
})

describe('GET /.well-known/ended-sessions', () => {
  it('answers a JWT that pages of all origins may read and caches keep for a second', async () => {
    const { headers, text } = await app.get(path).expect(200)
    expect(headers).toMatchObject({
      'content-type': 'application/jwt',
      'cache-control': 'max-age=1',
      'access-control-allow-origin': '*'
    })
    expect(text.split('.')).toHaveLength(3)
  })

  it('answers 304 without a body to a request with its ETag', async () => {
    const { headers } = await app.get(path).expect(200)
    const { text, headers: again } = await app.get(path, { 'If-None-Match': String(headers.etag) }).expect(304)
    expect([text, again['content-length'], again.etag]).toEqual(['', undefined, headers.etag])
    await app.get(path, { 'If-None-Match': `"a", W/${String(headers.etag)}` }).expect(304)
    await app.get(path, { 'If-None-Match': '"a"' }).expect(200)
  })

  it.each(['', '1.5', '-1', 'abc', '1e3', '1234567890123', '%31'])('answers 400 to after=%s', async (after) => {
    await app.get(`${path}?after=${after}`).expect(400, 'Invalid input')
  })

  it('answers 429 to a client that reads old lists too often, and 200 to one that polls', async () => {
    const old = `${path}?after=1`
    for (let count = 0; count < 20; count += 1) await app.get(old).expect(200)
    const { headers } = await app.get(old).expect(429)
    expect(Number(headers['retry-after'])).toBeGreaterThan(0)
    await app.get(`${path}?after=${String(app.clock.seconds)}`).expect(200)
  })

  it('is in the discovery document', async () => {
    const { body } = await app.get('/.well-known/did-auth.json').expect(200)
    expect(body).toMatchObject({ ended_sessions_uri: `https://service.example${path}` })
  })

  it('is absent without the option', async () => {
    const other = await testApp()
    await other.get(path).expect(404)
    await other.get('/.well-known/did-auth.json').expect(404)
  })

  it('answers 503 if the store is unavailable', async () => {
    const store = memoryStore()
    store.listEndedSessions = () => Promise.reject(new Error('down'))
    const other = await testApp({ endedSessions: true, store })
    await other.get(path).expect(503, 'Store unavailable, try again')
  })
})

describe('setupDidAuth with endedSessions', () => {
  it('throws ERR_CONFIG for a store without listEndedSessions', () => {
    const { listEndedSessions: _verb, ...store } = memoryStore()
    const config = { challengeSecret: 'a'.repeat(32), serviceUrl: 'https://a.example', serviceSigner: async () => '' }
    const setup = (): unknown =>
      setupDidAuth(express(), { ...config, serviceDid: 'did:web:a.example', endedSessions: true, store })
    expect(setup).toThrow(refusal('ERR_CONFIG'))
  })

  it('reports logouts and refreshes as security events', async () => {
    const { accessToken, refreshToken } = await app.logIn()
    await app.refresh(refreshToken).expect(200)
    await app.logOut(accessToken).expect(200)
    await app.logOut(accessToken).expect(200)
    expect(events.map(({ type }) => type)).toEqual(['login', 'refresh', 'logout'])
    expect(new Set(events.map(({ sessionId }) => sessionId)).size).toBe(1)
  })
})
