import { describe, expect, it } from '@jest/globals'
import { DidAuthError, errorTexts } from '../src/errors.js'

describe('DidAuthError', () => {
  it('carries its code and the fixed text of the code', () => {
    const error = new DidAuthError('ERR_ACCESS_TOKEN_EXPIRED')
    expect(error).toBeInstanceOf(Error)
    expect(error.name).toBe('DidAuthError')
    expect(error.code).toBe('ERR_ACCESS_TOKEN_EXPIRED')
    expect(error.message).toBe('Expired access token')
    expect(error.retryAfterSeconds).toBeUndefined()
    expect(error).not.toHaveProperty('cause')
  })

  it('carries a custom message, a cause and the seconds after which to retry', () => {
    const cause = new Error('why')
    const error = new DidAuthError('ERR_STORE', { message: 'words', cause, retryAfterSeconds: 5 })
    expect([error.message, error.cause, error.retryAfterSeconds]).toEqual(['words', cause, 5])
  })
})

describe('errorTexts', () =>
  it('contains short single lines, each for one code', () => {
    const texts = Object.values(errorTexts)
    expect(new Set(texts).size).toBe(texts.length)
    for (const text of texts) expect(text).toMatch(/^[A-Z][A-Za-z ,:-]{5,59}$/)
  }))
