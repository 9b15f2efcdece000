import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Express } from 'express'
import { parseHttpUrl } from 'express-did-auth/server-kit'
import type { ServerEnv, ServerName } from '../config/read-env.js'
import { describeReason } from '../config/startup-error.js'
import type { ServerAppParts } from '../http/create-app.js'
import { createSiweOptions } from '../http/did-auth.js'

const HTML = 'text/html; charset=utf-8'
const SCRIPT = 'text/javascript; charset=utf-8'

/** By path: the files that .config/build-page.js builds, and how they are served. */
const FILES: Readonly<Record<string, readonly [name: string, type: string]>> = {
  '/': ['index.html', HTML],
  // For links to files of the relay.
  '/open': ['open.html', HTML],
  '/page.js': ['page.js', SCRIPT],
  '/open.js': ['open.js', SCRIPT],
  '/page.css': ['page.css', 'text/css; charset=utf-8'],
  '/page.svg': ['page.svg', 'image/svg+xml']
}

/** The page at the root of the auth server, with the one of links: content and type by path. */
export type Page = ReadonlyMap<string, { bytes: Buffer; type: string }>

/** Reads the page that the build put into a folder; undefined, with a warning, where the build did not run. */
export function loadPage(folder: string, log: ServerAppParts['log']): Page | undefined {
  try {
    const files = Object.entries(FILES)
    return new Map(files.map(([path, [name, type]]) => [path, { bytes: readFileSync(join(folder, name)), type }]))
  } catch (error) {
    log.warn({ event: 'page-missing', reason: describeReason(error) }, 'the page is not built: npm run build')
    return undefined
  }
}

/** Serves the page. */
export function addPage(app: Express, page: Page, parts: ServerAppParts): void {
  const { env, serviceUrl, serviceUrls } = parts
  /** Where the page may connect to, beside this server; not to a neighbour whose name is no URL. */
  const getUrl = (name: ServerName): string => {
    const url = serviceUrls?.get(name) ?? ''
    return parseHttpUrl(url) === undefined ? '' : url
  }
  for (const [path, { bytes, type }] of page) {
    app.get(path, (req, res, next) => {
      // Express means `/open/` as well, where the page would look for its files in the wrong place.
      if (req.path !== path) {
        next()
        return
      }
      let body = bytes
      if (type === HTML) {
        const neighbours = { relay: getUrl('relay'), vault: getUrl('vault') }
        const siwe = String(createSiweOptions(parts) !== undefined)
        body = Buffer.from(fillIn(String(bytes), env, { auth: serviceUrl, siwe, ...neighbours }))
        // Instead of the policies that all answers have. Wallets in a popup talk to the page that opened them.
        res.set('Content-Security-Policy', createPolicy(Object.values(neighbours)))
        res.set('Cross-Origin-Opener-Policy', 'same-origin-allow-popups')
      }
      // A browser keeps the files and asks each time whether they are still good, so that two builds never meet.
      const etag = `"${createHash('sha256').update(body).digest('base64url')}"`
      res.set({ 'Cache-Control': 'no-cache', ETag: etag, 'Content-Type': type })
      if (req.headers['if-none-match'] === etag) res.status(304).end()
      else res.send(body)
    })
  }
}

/** Everything from here, no script or style in the page itself, and calls to the three servers only. */
function createPolicy(urls: readonly string[]): string {
  const origins = urls.flatMap((url) => (url === '' ? [] : [new URL(url).origin]))
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
function fillIn(html: string, env: ServerEnv, values: Readonly<Record<string, string>>): string {
  const mode = env.USE_COOKIES === true ? 'cookie' : 'header'
  const relay = { 'open-reads': String(env.RELAY_OPEN_READS), 'file-bytes': String(env.RELAY_MAX_FILE_BYTES) }
  const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
  const attributes = Object.entries({ ...values, mode, ...relay })
    .map(([name, value]) => `data-${name}="${escaped(value)}"`)
    .join(' ')
  return html.replace('<html', () => `<html ${attributes}`)
}
