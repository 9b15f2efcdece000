import { expect } from '@jest/globals'
import type { DidAuthErrorCode } from 'express-did-auth'

/** Matches a DidAuthError by its code, for `toThrow` and `rejects.toEqual`. */
export function refusal(code: DidAuthErrorCode): Error {
  return expect.objectContaining({ name: 'DidAuthError', code }) as unknown as Error
}

/** Work that throws. */
export function createThrowing(error: unknown): () => never {
  return () => {
    throw error
  }
}

/** The code that work is refused with, or undefined when it is done. */
export function catchCode(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => (error as { code?: unknown }).code
  )
}
