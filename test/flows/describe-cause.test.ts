import { describe, expect, it } from '@jest/globals'
import { describeCause, logFailure } from '../../src/flows/describe-cause.js'

const CHALLENGE = '3df1bf410e5287cc1f9de8cdeba68f2ee28f564fa4102e352773a9e45f84e722'
const REFRESH_TOKEN = 'kR7dQ2x-LmZ9vT_4bN8cWfYhJp0sE6uAoG3iXy1tVnM'
const PRIVATE_KEY = '4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318'
const SIGNATURE = `0x${'8e2f'.repeat(32)}1b`
const JWT =
  'eyJhbGciOiJFUzI1NksiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJkaWQ6ZXRocjpyc2s6MHhBQkMiLCJyb2xlIjoiYWRtaW4ifQ.2sEAB1HjwVCYqgBNlgTQCPAZiOEfLI6cUxIiu43cucwRPRsq3igmFKPcVdwCF_LOqFues_XcEw6bCPsX3fd50Q'

/** Secrets and the fragments that would reveal them. */
const secrets: [string, string, string[]][] = [
  ['a challenge', CHALLENGE, [CHALLENGE.slice(0, 16), CHALLENGE.slice(-16)]],
  ['a refresh token', REFRESH_TOKEN, [REFRESH_TOKEN.slice(0, 12), REFRESH_TOKEN.slice(-12)]],
  ['a private key', PRIVATE_KEY, [PRIVATE_KEY.slice(0, 12), PRIVATE_KEY.slice(-12)]],
  ['a private key with 0x', `0x${PRIVATE_KEY}`, [PRIVATE_KEY.slice(0, 12), PRIVATE_KEY.slice(-12)]],
  ['a signature', SIGNATURE, ['8e2f8e2f']],
  ['an access token', JWT, ['eyJzdWIi', 'YWRtaW4ifQ', '2sEAB1Hj', '3fd50Q']],
  [
    'cookies',
    `authorization=${JWT}; refresh-token=${REFRESH_TOKEN}`,
    ['eyJzdWIi', '2sEAB1Hj', REFRESH_TOKEN.slice(0, 12)]
  ],
  ['a header', `Authorization: DIDAuth ${JWT}`, ['eyJzdWIi', '2sEAB1Hj']],
  ['a body', JSON.stringify({ did: 'did:a:b', sig: SIGNATURE, refreshToken: REFRESH_TOKEN }), ['8e2f8e2f', 'kR7dQ2x']]
]

describe('describeCause', () => {
  it.each(secrets)('removes %s from name, code, message and stack, and from causes', (_name, secret, pieces) => {
    const inner = Object.assign(new Error(`inner ${secret}`), { code: secret })
    const error = new Error(`failed at ${secret}, sorry`, { cause: inner })
    error.name = `E ${secret}`
    const shown = JSON.stringify(describeCause(error))
    for (const piece of pieces) expect(shown).not.toContain(piece)
    expect(shown).toContain('sorry')
    expect(shown).toContain('inner')
  })

  it.each(secrets)('leaves no part of %s at the end of a long text', (_name, secret, pieces) => {
    for (let length = 1_800; length <= 2_000; length += 1) {
      const text = `${'filling '.repeat(250).slice(0, length - 1)} ${secret} `
      const shown = JSON.stringify(describeCause({ message: text }))
      for (const piece of pieces) expect(shown).not.toContain(piece)
    }
  })

  it('returns name, code, message, stack and causes with the same fields, and no other field', () => {
    const cause = Object.assign(new TypeError('down'), { code: 'ECONNREFUSED', address: '10.0.0.1', stack: 'there' })
    const error = Object.assign(new Error('no answer', { cause }), { errno: -111, body: 'x', stack: 'here' })
    expect(describeCause(error)).toEqual({
      name: 'Error',
      message: 'no answer',
      stack: 'here',
      cause: { name: 'TypeError', code: 'ECONNREFUSED', message: 'down', stack: 'there' }
    })
  })

  it('leaves stacks out on request, also those of causes', () => {
    const error = new Error('no answer', { cause: new Error('down') })
    expect(describeCause(error, { hasStack: false })).toEqual({
      name: 'Error',
      message: 'no answer',
      cause: { name: 'Error', message: 'down' }
    })
  })

  it('keeps words, paths and stack lines readable', () => {
    const stack = 'Error: x\n    at run (/srv/app/node_modules/express-did-auth/dist/flows/log-in.js:12:3)'
    expect(describeCause({ message: 'connect ECONNREFUSED 127.0.0.1:5432', code: 5, stack })).toEqual({
      message: 'connect ECONNREFUSED 127.0.0.1:5432',
      code: '5',
      stack
    })
  })

  it('follows at most 5 causes, so that a cycle ends', () => {
    const error: { message: string; cause?: unknown } = { message: 'round' }
    error.cause = error
    expect(JSON.stringify(describeCause(error)).match(/round/g)).toHaveLength(5)
  })

  it.each([
    ['nothing', undefined, undefined],
    ['null', null, { type: 'object' }],
    ['a string, which may be a secret', PRIVATE_KEY, { type: 'string' }],
    ['a number', 5, { type: 'number' }],
    ['an array', [PRIVATE_KEY], { type: 'object' }],
    ['an object without words', { privateKey: PRIVATE_KEY }, {}],
    ['words that are none', { message: { text: PRIVATE_KEY }, code: null }, {}]
  ])('returns only the type of a value that is not an error: %s', (_name, cause, shown) =>
    expect(describeCause(cause)).toEqual(shown)
  )

  it('shortens a text of a million characters to 2,000 without delay', () => {
    const text = `${'a'.repeat(31)}/`.repeat(32_000)
    const shown = describeCause({ message: text }) as { message: string }
    expect(shown.message.length).toBe(2_000)
  })
})

describe('logFailure', () => {
  const log = (code: string) => {
    const lines: [string, string, boolean][] = []
    const write = (level: string) => (fields: Record<string, unknown>, text: string) =>
      void lines.push([level, text, JSON.stringify(fields).includes('"stack"')])
    const cause = new Error('down', { cause: new Error('refused') })
    logFailure({ error: write('error'), debug: write('debug') }, { event: 'x' }, { code, cause, text: 'failed' })
    return lines
  }

  it('logs an unavailable service without stacks, and the stacks at debug', () =>
    expect(log('ERR_STORE')).toEqual([
      ['error', 'failed', false],
      ['debug', 'failed', true]
    ]))

  it.each(['ERR_INTERNAL', 'ERR_CONFIG'])('logs the stack of %s, which is a fault of the code', (code) =>
    expect(log(code)).toEqual([['error', 'failed', true]])
  )
})
