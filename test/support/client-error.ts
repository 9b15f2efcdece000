import { expect } from '@jest/globals'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { DidAuthClientError } from '../../src/client/wire/errors.js'
import { afterTest } from './after-test.js'

/** Returns the error of a call that must fail. */
export function catchFailure(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => new Error('it should have failed'),
    (thrown: unknown) => thrown
  )
}

/** Expects a failure of the client, with a type and a user message that ends with advice. */
export async function expectClientError(work: Promise<unknown>, fields: object): Promise<void> {
  const error = await catchFailure(work)
  expect(error).toBeInstanceOf(DidAuthClientError)
  expect(error).toMatchObject(fields)
  expect((error as DidAuthClientError).userMessage).toMatch(/^[A-Z].+\. [A-Z].+\.$|^The operator removed this \w+\.$/)
}

/** Returns a listener with a constant response, as HTML by default. */
export function startAnsweringServer(status: number, body: string, headers = {}): RequestListener {
  return (_req, res) => res.writeHead(status, { 'Content-Type': 'text/html', ...headers }).end(body)
}

/** Returns a listener that always refuses, in the format of this package. */
export function startRefusingServer(status: number, code: string): RequestListener {
  const body = JSON.stringify({ type: 'about:blank', title: code, status, code })
  return startAnsweringServer(status, body, { 'Content-Type': 'application/problem+json', 'Retry-After': '7' })
}

/** A listener on a port of this machine. */
export interface HttpAddress {
  url: string
  server: Server
  close(): Promise<void>
}

export async function listenAt(listener: RequestListener): Promise<HttpAddress> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeAllConnections()
    await closed
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server, close }
}

/** Listens until the test is over, and returns the URL. */
export async function startServer(listener: RequestListener): Promise<string> {
  const { url, close } = await listenAt(listener)
  afterTest(close)
  return url
}
