import { afterEach, describe, expect, it } from '@jest/globals'
import type { RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import express, { type Express } from 'express'
import session from 'express-session'
import { runConformance } from '../../../../servers/tools/conformance/command.js'
import type { ConformanceReport } from '../../../../servers/tools/conformance/command.js'
import { runCommand } from '../../../support/servers/command-line.js'
import { listIds } from '../../../support/servers/conformance.js'
import { closeServices, serving } from '../../../support/servers/server-client.js'
import { testAuthServer } from '../../../support/servers/test-app.js'
import { addToySiweBackend, type SiweFault } from '../../../support/faults/toy-siwe-backend.js'

/** Part of the package siwe that these tests use. It is installed with the packages of the slow tests. */
interface Siwe {
  generateNonce(): string
  SiweMessage: new (message: string) => {
    uri: string
    verify(params: { signature: string; nonce: string | undefined; domain?: string }): Promise<{ success: boolean }>
  }
}
const { SiweMessage, generateNonce } = createRequire(new URL('../../../slow/package.json', import.meta.url))(
  'siwe'
) as Siwe

declare module 'express-session' {
  interface SessionData {
    nonce: string | undefined
  }
}

const DOMAIN = 'app.example'
const SESSION_CHECKS = ['siwe-csrf', 'siwe-cookies']

afterEach(closeServices)

/** Runs `conformance --siwe` and returns its report. */
async function score(listener: RequestListener, path = '/siwe', ...args: string[]): Promise<ConformanceReport> {
  const url = `${await serving(listener)}${path}`
  const { lines } = await runCommand(runConformance, ['--siwe', url, '--json', ...args])
  return JSON.parse(lines.join('')) as ConformanceReport
}

const createToyBackend = (fault?: SiweFault, cookie?: string): Express => {
  const app = express()
  addToySiweBackend(app, DOMAIN, fault, cookie)
  return app
}

/** Creates a siwe backend with its nonce in express-session. A careful one also consumes it and checks the domain. */
function createSessionBackend(isCareful: boolean): Express {
  const app = express()
  app.use(express.json())
  const cookie = { secure: false, sameSite: isCareful ? ('strict' as const) : undefined }
  app.use(session({ name: 'siwe', secret: 'siwe-quickstart-secret', resave: false, saveUninitialized: true, cookie }))
  app.get('/nonce', (req, res) => {
    req.session.nonce = generateNonce()
    if (isCareful) res.set('Cache-Control', 'no-store')
    res.type('text/plain').send(req.session.nonce)
  })
  app.post('/verify', async (req, res) => {
    const { message, signature } = (req.body ?? {}) as { message: string; signature: string }
    const { nonce } = req.session
    try {
      const parsed = new SiweMessage(message)
      if (isCareful && new URL(parsed.uri).host !== DOMAIN) throw new Error('another site')
      const expected = isCareful ? { nonce: nonce ?? 'none', domain: DOMAIN } : { nonce }
      await parsed.verify({ signature, ...expected })
      if (isCareful) {
        // No await separates check and consumption, so that only one of two copies succeeds.
        if (usedNonces.has(nonce)) throw new Error('used')
        usedNonces.add(nonce)
        req.session.nonce = undefined
      }
      res.send(true)
    } catch {
      if (!isCareful) req.session.nonce = undefined
      res.status(422).json({ message: 'Refused' })
    }
  })
  const usedNonces = new Set<string | undefined>()
  return app
}

describe('the command conformance --siwe', () => {
  it.each<[SiweFault | undefined, string]>([
    [undefined, ''],
    ['one nonce for all', 'siwe-nonce'],
    ['nonce good twice', 'siwe-single-use siwe-race'],
    ['nonce consumed late', 'siwe-race'],
    ['nonce burnt by a bad signature', 'siwe-burnt-nonce'],
    ['any nonce', 'siwe-single-use siwe-race siwe-own-nonce'],
    ['any signature', 'siwe-wrong-signer siwe-burnt-nonce'],
    ['any domain', 'siwe-wrong-domain siwe-wrong-uri'],
    ['any URI', 'siwe-wrong-uri'],
    ['no end', 'siwe-ended'],
    ['no beginning', 'siwe-not-yet'],
    ['text behind the message', 'siwe-other-text'],
    ['nonce kept by the client', 'siwe-single-use siwe-race'],
    ['status 200 for all', '']
  ])('detects "%s" in a backend with tokens in bodies', async (fault, expected) => {
    const report = await score(createToyBackend(fault), '/siwe', '--domain', DOMAIN)
    expect(listIds(report, 'failed').join(' ')).toBe(expected)
    // A nonce that the client stores is in a cookie, and the session checks run with any cookie.
    expect(listIds(report, 'skipped')).toEqual(fault === 'nonce kept by the client' ? [] : SESSION_CHECKS)
  })

  it.each<[string, SiweFault | undefined, string, string]>([
    ['nothing wrong', undefined, 'HttpOnly; SameSite=Lax', ''],
    ['forms of any page', 'forms of any page', 'HttpOnly; SameSite=Lax', 'siwe-csrf'],
    ['scripts of any page', 'scripts of any page', 'HttpOnly; SameSite=Strict', 'siwe-csrf'],
    ['a cookie for scripts', undefined, 'SameSite=Lax', 'siwe-cookies'],
    ['a cookie that goes along from any page', undefined, 'HttpOnly; SameSite=None', 'siwe-cookies']
  ])('detects %s in a backend with cookies', async (_what, fault, attributes, expected) => {
    const report = await score(createToyBackend(fault, `sid=1; Path=/; ${attributes}`), '/siwe', '--domain', DOMAIN)
    expect([listIds(report, 'failed').join(' '), listIds(report, 'skipped')]).toEqual([expected, []])
  })

  it('detects the faults of a siwe backend with express-session that compares only the nonce', async () => {
    const report = await score(createSessionBackend(false), '', '--domain', DOMAIN)
    expect(listIds(report, 'failed')).toEqual([
      'siwe-nonce',
      'siwe-single-use',
      'siwe-race',
      'siwe-wrong-domain',
      'siwe-wrong-uri',
      'siwe-cookies'
    ])
  })

  it('finds no fault in a careful siwe backend with express-session', async () => {
    const report = await score(createSessionBackend(true), '', '--domain', DOMAIN)
    expect([listIds(report, 'failed'), listIds(report, 'skipped')]).toEqual([[], []])
  })

  it('finds no fault in the auth server', async () => {
    const { listener } = await testAuthServer({ USE_COOKIES: 'true' })
    const report = await score(listener, '/siwe', '--domain', 'auth.example')
    expect([listIds(report, 'failed'), listIds(report, 'skipped'), report.total]).toEqual([[], [], 14])
  })

  it('supports other paths, and passes no check if a valid login fails', async () => {
    const app = express()
    app.use((req, _res, next) => {
      req.url = req.url.replace('/api/challenge', '/siwe/nonce').replace('/api/login', '/siwe/verify')
      next()
    })
    addToySiweBackend(app, DOMAIN)
    const paths = ['--siwe-nonce-path', '/challenge', '--siwe-verify-path', '/login']
    expect((await score(app, '/api', '--domain', DOMAIN, ...paths)).passed).toBe(12)
    const { passed, checks } = await score(app, '/api', ...paths)
    expect(passed).toBe(0)
    expect(checks[0]!.detail).toMatch(
      /^not checked, because a valid login fails: a valid message: POST \/login answered 401/
    )
  })
})
