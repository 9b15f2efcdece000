import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { errorTexts } from 'express-did-auth'
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, posix } from 'node:path'
import { promisify } from 'node:util'
import type { Browser } from 'playwright-core'
import { serverErrors } from '../../servers/http/server-error.js'
import * as clientErrors from '../../src/client/wire/error-codes.js'
import { findAccessibilityFaults, launchBrowser, measureOverflow, openProfile } from '../support/engines/browser.js'
import { documentFiles, readDocument, readMarkdown, root } from '../support/fixtures/documents.js'

const site = join(root, '.cache/site/html')
const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml'
}
const ENTITIES: Record<string, string> = { lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'" }

let [browser, server, url] = [] as unknown as [Browser, Server, string]
let files: string[] = []
const read = (file: string): string => readFileSync(join(site, file), 'utf8')
const listPages = (): string[] => files.filter((file) => file.endsWith('.html') && file !== '404.html')
/** Returns the text of a piece of HTML. */
const toText = (html: string): string =>
  html.replaceAll(/<[^>]+>/g, '').replaceAll(/&(#?\w+);/g, (entity, name: string) => ENTITIES[name] ?? entity)

beforeAll(async () => {
  await promisify(execFile)(process.execPath, [join(root, '.site/build.js')], { cwd: root })
  files = readdirSync(site, { recursive: true, encoding: 'utf8' }).filter((file) => extname(file) !== '')
  server = createServer(({ url: target = '' }, res) => {
    const path = decodeURIComponent(new URL(target, 'http://localhost').pathname)
    const file = [path, `${path}.html`, posix.join(path, 'index.html')].find((one) => files.includes(one.slice(1)))
    if (file === undefined) res.writeHead(404).end()
    else res.setHeader('Content-Type', TYPES[extname(file)] ?? 'text/plain').end(readFileSync(join(site, file)))
  }).listen(0, '127.0.0.1')
  browser = await launchBrowser()
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  await browser.close()
  server.close()
})

describe('the documentation site', () => {
  it('has links only to pages and anchors that exist', () => {
    const anchors = new Map(
      listPages().map((page) => [page, [...read(page).matchAll(/ id="([^"]+)"/g)].map(([, id]) => id)])
    )
    const broken = listPages().flatMap((page) => {
      const targets = [...read(page).matchAll(/ (?:href|src)="([^"]+)"/g)].map(([, target]) => toText(target!))
      return targets
        .filter((target) => {
          if (/^(?:https?|data|mailto):/.test(target)) return false
          const { pathname, hash } = new URL(target, `${url}/${page}`)
          const path = decodeURIComponent(pathname).slice(1)
          const file = [path, `${path}.html`, posix.join(path, 'index.html')].find((one) => files.includes(one))
          if (file === undefined) return true
          return hash !== '' && anchors.get(file)?.includes(decodeURIComponent(hash).slice(1)) !== true
        })
        .map((target) => `${page}: ${target}`)
    })
    expect([...new Set(broken)]).toEqual([])
  })

  it('shows every code block of the documents unchanged', () => {
    const shown = new Set(
      listPages().flatMap((page) =>
        [...read(page).matchAll(/<code[^>]*>([^]*?)<\/code>/g)].map(([, code]) => toText(code!).trim())
      )
    )
    const blocks = documentFiles.flatMap((file) =>
      readDocument(file).blocks.map(({ code }) => ({ file, code: code.trim() }))
    )
    expect(blocks.length).toBeGreaterThan(100)
    expect(blocks.filter(({ code }) => !shown.has(code))).toEqual([])
  })

  it('has a page for each error code, with its cause and remedy', () => {
    const codes = [...Object.keys(errorTexts), ...Object.keys(serverErrors), ...Object.keys(clientErrors)]
    const pages = codes.map((code) => join(site, `errors/${code}.md`))
    expect(
      pages.filter((page) => !existsSync(page) || !/\*\*Cause\*\*[^]+\*\*Remedy\*\*/.test(readFileSync(page, 'utf8')))
    ).toEqual([])
  })

  it('has each page as Markdown next to its HTML, and lists it in llms.txt', () => {
    const pages = listPages().map((page) => page.replace(/html$/, 'md'))
    expect(pages.filter((page) => !files.includes(page))).toEqual([])
    const listed = [...read('llms.txt').matchAll(/^- \[.*?\]\((.*?)\)/gm)].map(([, address]) => address)
    expect(listed.sort()).toEqual(pages.sort())
    const addresses = pages.flatMap((page) => {
      const { prose } = readMarkdown(join(site, page))
      return [...prose.matchAll(/\]\((?!\w+:|#)([^)#\s]+)/g)].map(([, target]) =>
        posix.join(posix.dirname(page), target!)
      )
    })
    expect(addresses.filter((address) => !files.includes(address) && !/\.(?:svg|webp)$/.test(address))).toEqual([])
  })

  it('finds the page that answers a question', async () => {
    const queries = [
      ['MetaMask', '/guides/glossary'],
      ['ERR_CHALLENGE', '/errors/ERR_CHALLENGE.html'],
      ['WALLET_BUSY', '/errors/WALLET_BUSY.html'],
      ['cookie', '/config/#cookies-and-csrf'],
      ['logout other services', '/verify/'],
      ['PostgreSQL store', '/stores/'],
      ['passkey', '/client/keys.html'],
      ['React', '/recipes.html#react'],
      ['rate limit', '/config/#limits'],
      ['setupDidAuth', '/api/express-did-auth.html#setupdidauth'],
      ['backup', '/servers/backup'],
      ['ban a user', '/guides/roles.html#bans'],
      ['what is a DID', '/guides/glossary.html']
    ]
    const { context, open } = await openProfile(browser)
    const page = await open(url)
    await page.click('#local-search button')
    const answers: [string, string | null][] = []
    for (const [query = ''] of queries) {
      await page.fill('input[type=search]', '')
      await page.waitForSelector('.results:not(:has(a.result))', { state: 'attached' })
      await page.fill('input[type=search]', query)
      await page.waitForSelector('.results a.result')
      answers.push([query, await page.getAttribute('.results a.result', 'href')])
    }
    await context.close()
    expect(answers).toEqual(queries.map(([query, address]) => [query, expect.stringContaining(address!)]))
  })

  it.each([
    ['light', 1280],
    ['light', 390],
    ['dark', 1280],
    ['dark', 390]
  ] as const)('passes the axe checks, and fits the window (%s, %i px)', async (colorScheme, width) => {
    const { context, open, complaints } = await openProfile(browser, [], {
      colorScheme,
      viewport: { width, height: 900 },
      reducedMotion: 'reduce'
    })
    const faults: unknown[] = []
    for (const path of ['/', '/introduction', '/errors/ERR_CHALLENGE', '/api/express-did-auth-client/qr']) {
      const page = await open(url + path)
      const found = await findAccessibilityFaults(page)
      const overflow = await measureOverflow(page)
      if (found.length > 0 || overflow > 0) faults.push({ path, found, overflow })
    }
    await context.close()
    expect([faults, complaints]).toEqual([[], []])
  })
})
