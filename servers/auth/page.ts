import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Express } from 'express'
import { listsEntityTag, parseHttpUrl } from 'express-did-auth/server-kit'
import type { ServerEnv, ServerName } from '../config/read-env.js'
import { describeReason } from '../config/startup-error.js'
import type { ServerAppParts } from '../http/create-app.js'
import { createSiweOptions } from '../http/did-auth.js'

const HTML = 'text/html; charset=utf-8'
const SCRIPT = 'text/javascript; charset=utf-8'

/** Name and content type of each file that `.config/build-page.js` builds, by request path. */
const FILES: Readonly<Record<string, readonly [name: string, type: string]>> = {
  '/': ['index.html', HTML],
  // The page that opens links to files of the relay.
  '/open': ['open.html', HTML],
  '/page.js': ['page.js', SCRIPT],
  '/open.js': ['open.js', SCRIPT],
  '/page.css': ['page.css', 'text/css; charset=utf-8'],
  '/page.svg': ['page.svg', 'image/svg+xml']
}

/** Content and type of the pages' files by request path: the page at the root, and the page that opens links. */
export type Page = ReadonlyMap<string, { bytes: Buffer; type: string }>

/** Reads the files of the page from a folder. Logs a warning and returns undefined if the page is not built. */
export function loadPage(folder: string, log: ServerAppParts['log']): Page | undefined {
  try {
    const files = Object.entries(FILES)
    return new Map(files.map(([path, [name, type]]) => [path, { bytes: readFileSync(join(folder, name)), type }]))
  } catch (error) {
    log.warn(
      { event: 'page-missing', reason: describeReason(error) },
      'the page is not built, so the server has no page; run npm run build'
    )
    return undefined
  }
}

/** Adds the routes of the page. */
export function addPage(app: Express, page: Page, parts: ServerAppParts): void {
  const { env, serviceUrl, serviceUrls } = parts
  /** Returns the URL of another server, to which the page may connect; empty if its name is not a URL. */
  const getUrl = (name: ServerName): string => {
    const url = serviceUrls?.get(name) ?? ''
    return parseHttpUrl(url) === undefined ? '' : url
  }
  for (const [path, { bytes, type }] of page) {
    app.get(path, (req, res, next) => {
      // Express also matches `/open/`, where relative URLs of the page would be wrong.
      if (req.path !== path) {
        next()
        return
      }
      let body = bytes
      if (type === HTML) {
        const otherServers = { relay: getUrl('relay'), vault: getUrl('vault') }
        const siwe = String(createSiweOptions(parts) !== undefined)
        body = Buffer.from(fillIn(String(bytes), env, { auth: serviceUrl, siwe, ...otherServers }))
        // Replaces the policies that all responses have. Wallets in a popup talk to the page that opened them.
        res.set('Content-Security-Policy', createPolicy(Object.values(otherServers)))
        res.set('Cross-Origin-Opener-Policy', 'same-origin-allow-popups')
      }
      // Browsers cache the files, but revalidate them each time, so that files of two builds are never mixed.
      const etag = `"${createHash('sha256').update(body).digest('base64url')}"`
      res.set({ 'Cache-Control': 'no-cache', ETag: etag, 'Content-Type': type })
      if (listsEntityTag(req.headers['if-none-match'], etag)) res.status(304).end()
      else res.send(body)
    })
  }
}

/** Creates the policy: files of this server only, no inline script or style, and requests to the three servers only. */
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

/** Writes URLs and settings of the servers into attributes of the root element, such as `data-relay="…"`. */
function fillIn(html: string, env: ServerEnv, values: Readonly<Record<string, string>>): string {
  const mode = env.USE_COOKIES === true ? 'cookie' : 'header'
  const relay = { 'open-reads': String(env.RELAY_OPEN_READS), 'file-bytes': String(env.RELAY_MAX_FILE_BYTES) }
  const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
  const attributes = Object.entries({ ...values, mode, ...relay })
    .map(([name, value]) => `data-${name}="${escaped(value)}"`)
    .join(' ')
  return html.replace('<html', () => `<html ${attributes}`)
}
