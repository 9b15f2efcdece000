import { expect } from '@jest/globals'
import type { DidAuthErrorCode } from 'express-did-auth'

/** Matches a DidAuthError by its code, for `toThrow` and `rejects.toEqual`. */
export function refusal(code: DidAuthErrorCode): Error {
  return expect.objectContaining({ name: 'DidAuthError', code }) as unknown as Error
}
