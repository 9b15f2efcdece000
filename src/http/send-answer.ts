import type { Response } from 'express'

/** Sends JSON. Express's `res.json` costs more than the rest of a challenge; a text is sent with the headers. */
export function sendJson(res: Response, body: object, headers?: Record<string, string>): void {
  sendText(res, JSON.stringify(body), headers, 'application/json')
}

/** Answers 200 with text. */
export function sendText(res: Response, text: string, headers: Record<string, string> = {}, type = 'text/plain'): void {
  res.writeHead(200, {
    'Content-Type': `${type}; charset=utf-8`,
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    ...headers
  })
  res.end(text)
}

/** Answers 200 without content. */
export function sendEmpty(res: Response, headers: Record<string, string> = {}): void {
  res.writeHead(200, { 'Content-Length': 0, 'Cache-Control': 'no-store', ...headers })
  res.end()
}
