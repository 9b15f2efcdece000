import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Express, Response } from 'express'
import type { ServerEnv, ServerName } from '../config/read-env.js'
import { reasonOf } from '../config/startup-error.js'
import type { ServerAppParts } from '../http/create-app.js'
import { siweOf } from '../http/did-auth.js'

/** The pages, by their path. */
const PAGES: Readonly<Record<string, string>> = { '/': 'index.html', '/open': 'open.html' }

/** Files beside them, and how they are served. */
const ASSETS: Readonly<Record<string, string>> = {
  'page.js': 'text/javascript; charset=utf-8',
  'open.js': 'text/javascript; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
  'page.svg': 'image/svg+xml'
}

/** The page at the root of the auth server and the one of links, as .config/build-page.js built them. */
export interface Page {
  /** By path. */
  html: ReadonlyMap<string, string>
  assets: ReadonlyMap<string, Buffer>
}

/** Reads the page that the build put into a folder; undefined, with a warning, where the build did not run. */
export function loadPage(folder: string, log: ServerAppParts['log']): Page | undefined {
  try {
    const html = Object.entries(PAGES).map(([path, name]) => [path, readFileSync(join(folder, name), 'utf8')] as const)
    const assets = Object.keys(ASSETS).map((name) => [name, readFileSync(join(folder, name))] as const)
    return { html: new Map(html), assets: new Map(assets) }
  } catch (error) {
    log.warn({ event: 'page-missing', reason: reasonOf(error) }, 'the page is not built: npm run build')
    return undefined
  }
}

/** Serves the page at `/`, and at `/open` for links to files of the relay. */
export function addPage(app: Express, page: Page, parts: ServerAppParts): void {
  const { env, serviceUrl, serviceUrls } = parts
  /** Where the page may connect to, beside this server; not to a neighbour whose name is no URL. */
  const urlOf = (name: ServerName): string => {
    const url = serviceUrls?.get(name) ?? ''
    return /^https?:/i.test(url) && URL.canParse(url) ? url : ''
  }
  for (const [path, html] of page.html) {
    app.get(path, (req, res, next) => {
      // Express means `/open/` as well, where the page would look for its files in the wrong place.
      if (req.path !== path) {
        next()
        return
      }
      const neighbours = { relay: urlOf('relay'), vault: urlOf('vault') }
      const siwe = String(siweOf(parts) !== undefined)
      const bytes = Buffer.from(fillIn(html, env, { auth: serviceUrl, siwe, ...neighbours }))
      // Instead of the policies that all answers have. Wallets in a popup talk to the page that opened them.
      res.set('Content-Security-Policy', policyFor(Object.values(neighbours)))
      res.set('Cross-Origin-Opener-Policy', 'same-origin-allow-popups')
      send(res, bytes, 'text/html; charset=utf-8', req.headers['if-none-match'])
    })
  }
  for (const [name, bytes] of page.assets) {
    app.get(`/${name}`, (req, res) =>
      send(res, bytes, ASSETS[name] ?? 'application/octet-stream', req.headers['if-none-match'])
    )
  }
}

/** A browser keeps the files and asks each time whether they are still good, so that two builds never meet. */
function send(res: Response, bytes: Buffer, type: string, known: string | undefined): void {
  const etag = `"${createHash('sha256').update(bytes).digest('base64url')}"`
  res.set({ 'Cache-Control': 'no-cache', ETag: etag, 'Content-Type': type })
  if (known === etag) res.status(304).end()
  else res.send(bytes)
}

/** Everything from here, no script or style in the page itself, and calls to the three servers only. */
function policyFor(urls: readonly string[]): string {
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
