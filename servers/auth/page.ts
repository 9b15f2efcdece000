import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Express, RequestHandler, Response } from 'express'
import type { ServerEnv, ServerName } from '../config/read-env.js'
import { reasonOf } from '../config/startup-error.js'
import type { ServerAppParts } from '../http/create-app.js'
import { siweOf } from '../http/did-auth.js'

/** Files beside `index.html`, and how they are served. */
const ASSETS: Readonly<Record<string, string>> = {
  'page.js': 'text/javascript; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
  'page.svg': 'image/svg+xml'
}

/** The page at the root of the auth server, as .config/build-page.js built it. */
export interface Page {
  html: string
  assets: ReadonlyMap<string, Buffer>
}

/**
 * Reads the built page into memory.
 *
 * @param folder - where the build put it
 * @returns undefined, with a warning, where the build did not run
 */
export function loadPage(folder: string, log: ServerAppParts['log']): Page | undefined {
  try {
    const html = readFileSync(join(folder, 'index.html'), 'utf8')
    const assets = Object.keys(ASSETS).map((name) => [name, readFileSync(join(folder, name))] as const)
    return { html, assets: new Map(assets) }
  } catch (error) {
    log.warn({ event: 'page-missing', reason: reasonOf(error) }, 'the page is not built: npm run build')
    return undefined
  }
}

/** Where the page may connect to, beside the server that serves it. */
type Neighbours = Partial<Record<ServerName, string | undefined>>

/** Serves the page at `/`, and at `/open` for links to files of the relay. */
export function addPage(app: Express, page: Page, parts: ServerAppParts): void {
  const { env, serviceUrl, serviceUrls } = parts
  const sendPage: RequestHandler = (req, res) => {
    const neighbours = { relay: serviceUrls?.get('relay'), vault: serviceUrls?.get('vault') }
    const html = Buffer.from(
      fillIn(page.html, env, { auth: serviceUrl, siwe: String(siweOf(parts) !== undefined), ...neighbours })
    )
    // Instead of the policies that all answers have. Wallets in a popup talk to the page that opened them.
    res.set('Content-Security-Policy', policyFor(Object.values(neighbours)))
    res.set('Cross-Origin-Opener-Policy', 'same-origin-allow-popups')
    send(res, html, 'text/html; charset=utf-8', req.headers['if-none-match'])
  }
  app.get('/', sendPage)
  app.get('/open', sendPage)
  for (const [name, bytes] of page.assets) {
    app.get(`/${name}`, (req, res) => {
      send(res, bytes, ASSETS[name] ?? 'application/octet-stream', req.headers['if-none-match'])
    })
  }
}

/** A browser keeps the files and asks each time whether they are still good, so that no two of different builds meet. */
function send(res: Response, bytes: Buffer, type: string, known: string | undefined): void {
  const etag = `"${createHash('sha256').update(bytes).digest('base64url')}"`
  res.set({ 'Cache-Control': 'no-cache', ETag: etag, 'Content-Type': type })
  if (known === etag) res.status(304).end()
  else res.send(bytes)
}

/** Everything from here, no script or style in the page itself, and calls to the three servers only. */
function policyFor(urls: readonly (string | undefined)[]): string {
  const origins = urls.flatMap((url) => (url !== undefined && isHttpUrl(url) ? [new URL(url).origin] : []))
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    // Wallets announce their icons as data URLs (EIP-6963).
    "img-src 'self' data:",
    ["connect-src 'self'", ...origins].join(' '),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ].join('; ')
}

/** The page learns from attributes of its root element where the servers are, and what they have: `data-relay="…"`. */
function fillIn(
  html: string,
  { USE_COOKIES }: Pick<ServerEnv, 'USE_COOKIES'>,
  urls: Neighbours & { siwe: string }
): string {
  const mode = USE_COOKIES === true ? 'cookie' : 'header'
  const attributes = Object.entries({ ...urls, mode })
    .map(([name, value = '']) => `data-${name}="${escapeAttribute(value)}"`)
    .join(' ')
  return html.replace('<html', () => `<html ${attributes}`)
}

function escapeAttribute(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}

function isHttpUrl(text: string): boolean {
  return /^https?:/i.test(text) && URL.canParse(text)
}
