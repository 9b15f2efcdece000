import { expect } from '@jest/globals'
import type { RequestListener } from 'node:http'
import { DidAuthClientError } from '../../src/client/errors.js'

/** Waits for a failure of the client. Each is typed, and has sentences for users of which the last says what to do. */
export async function expectClientError(work: Promise<unknown>, fields: object): Promise<void> {
  const error = await work.then(
    () => new Error('it should have failed'),
    (thrown: unknown) => thrown
  )
  expect(error).toBeInstanceOf(DidAuthClientError)
  expect(error).toMatchObject(fields)
  expect((error as DidAuthClientError).userMessage).toMatch(/^[A-Z].+\. [A-Z].+\.$/)
}

/** A server that answers always the same, as HTML unless the headers say more. */
export function answering(status: number, body: string, headers = {}): RequestListener {
  return (_req, res) => res.writeHead(status, { 'Content-Type': 'text/html', ...headers }).end(body)
}

/** A server that refuses always, as ours do. */
export function problem(status: number, code: string): RequestListener {
  const body = JSON.stringify({ type: 'about:blank', title: code, status, code })
  return answering(status, body, { 'Content-Type': 'application/problem+json', 'Retry-After': '7' })
}
