import type { HttpAnswer } from '../http-messages.js'

/** Returns an answer of status 200 with JSON. */
export function jsonAnswer(body: object, headers: Readonly<Record<string, string>> = {}): HttpAnswer {
  return textAnswer(JSON.stringify(body), headers, 'application/json')
}

/** Returns an answer of status 200 with text. */
export function textAnswer(
  body: string,
  headers: Readonly<Record<string, string>> = {},
  type = 'text/plain'
): HttpAnswer {
  const content = { 'Content-Type': `${type}; charset=utf-8`, 'Cache-Control': 'no-store' }
  return { status: 200, headers: { ...content, ...headers }, body }
}

/** Returns an answer of status 200 without content. */
export function emptyAnswer(headers: Readonly<Record<string, string>> = {}): HttpAnswer {
  return { status: 200, headers: { 'Cache-Control': 'no-store', ...headers } }
}
