import type { Response } from 'express'

/**
 * Answers 200 with JSON. Express's own `res.json` costs more than the rest of a challenge. A text is sent together with
 * the headers, where bytes would need a write of their own.
 */
export function sendJson(res: Response, body: object, headers: Record<string, string> = {}): void {
  const json = JSON.stringify(body)
  res.writeHead(200, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(json),
    'Cache-Control': 'no-store',
    ...headers
  })
  res.end(json)
}

/** Answers 200 without content. */
export function sendEmpty(res: Response, headers: Record<string, string> = {}): void {
  res.writeHead(200, { 'Content-Length': 0, 'Cache-Control': 'no-store', ...headers })
  res.end()
}
