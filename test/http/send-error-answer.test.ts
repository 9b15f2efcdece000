import { describe, expect, it } from '@jest/globals'
import express from 'express'
import request from 'supertest'
import { defaultPaths, es256kSigner, isPrivateKey, sendErrorAnswer, type ErrorAnswerOptions } from '../../src/index.js'

const serviceUrl = 'https://service.example'
const busy = { status: 504, code: 'ERR_UPSTREAM', text: 'Upstream timed out', retryAfterSeconds: 1.5 }

const app = (options: ErrorAnswerOptions) =>
  express().use((req, res) => {
    sendErrorAnswer(req, res, busy, options)
  })

describe('sendErrorAnswer', () => {
  it('answers an error of the application as the package answers its own', async () => {
    const response = await request(app({ serviceUrl })).get('/').expect(504, 'Upstream timed out')
    expect(response.headers).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
      'retry-after': '2'
    })
  })

  it.each([
    ['text', 'application/problem+json', true],
    ['text', 'application/json, text/plain, */*', false],
    ['problem', '*/*', true],
    ['problem', 'application/json', true],
    ['problem', 'text/plain', false]
  ] as const)('with errorFormat %s, Accept "%s" gets a problem: %s', async (errorFormat, accept, isProblem) => {
    const response = await request(app({ serviceUrl, errorFormat })).get('/').set('Accept', accept).expect(504)
    const problem = { type: 'about:blank', title: 'Upstream timed out', status: 504, code: 'ERR_UPSTREAM' }
    expect(response.text).toBe(isProblem ? JSON.stringify(problem) : 'Upstream timed out')
  })
})

describe('isPrivateKey', () => {
  const order = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'
  it.each([
    ['64 digits', '1'.repeat(64), true],
    ['digits after 0x', `0x${'aB'.repeat(32)}`, true],
    ['32 bytes', new Uint8Array(32).fill(1), true],
    ['the largest key', order.replace(/1$/, '0'), true],
    ['the order of the curve', order, false],
    ['0', '0'.repeat(64), false],
    ['63 digits', '1'.repeat(63), false],
    ['no text', undefined, false]
  ])('agrees with es256kSigner on %s', async (_what, value, expected) => {
    expect(isPrivateKey(value)).toBe(expected)
    const signed = es256kSigner(value as string)('data')
    if (expected) await signed
    else await expect(signed).rejects.toThrow(TypeError)
  })
})

describe('defaultPaths', () => {
  it('has the routes that accept POST', () => {
    expect(defaultPaths).toEqual({
      requestSignup: '/request-signup',
      signup: '/signup',
      requestAuth: '/request-auth',
      auth: '/auth',
      refreshToken: '/refresh-token',
      logout: '/logout'
    })
  })
})
