import { afterEach, describe, expect, it } from '@jest/globals'
import type { ServerResponse } from 'node:http'
import { runConformance } from '../../../../servers/commands/conformance/command.js'
import { checkService, closeServices, idsOf, serving } from '../../../support/conformance.js'
import { sendForever } from '../../../support/ipfs-faults.js'
import { testApp, testAuthServer } from '../../../support/test-app.js'
import { toyAuthServer } from '../../../support/toy-auth-server.js'
import { testVault } from '../../../support/vault-app.js'

const COOKIE_CHECKS = ['cookie-attributes', 'cookie-cross-origin', 'cookie-logout']

afterEach(closeServices)

describe('conformance', () => {
  it('gives the library full marks, with tokens in bodies', async () => {
    const { app, clock } = await testApp()
    const report = await checkService(app, { clock })
    expect([idsOf(report, 'failed'), idsOf(report, 'skipped')]).toEqual([[], COOKIE_CHECKS])
    expect([report.passed, report.total]).toEqual([report.checks.length - 3, report.checks.length - 3])
  })

  it('gives the library full marks, with tokens in cookies', async () => {
    const { app, clock } = await testApp({ useCookies: true, cookiePrefix: '__Host-' })
    const report = await checkService(app, { clock })
    expect([idsOf(report, 'failed'), idsOf(report, 'skipped')]).toEqual([[], []])
  })

  it('gives the auth server full marks, and leaves out what would take ten minutes', async () => {
    const { listener } = await testAuthServer()
    const report = await checkService(listener)
    expect(idsOf(report, 'failed')).toEqual([])
    expect(idsOf(report, 'skipped')).toEqual(['guard-expired-token', ...COOKIE_CHECKS])
    expect(report.total).toBeGreaterThanOrEqual(45)
  })

  it('gives the vault full marks, whose guarded routes are its own', async () => {
    const vault = await testVault()
    const report = await checkService(vault.listener, { protectedPath: '/storage' })
    expect(idsOf(report, 'failed')).toEqual([])
    await vault.close()
  })

  it('reads no more than 1 MiB of an answer, and fails the checks that asked for it', async () => {
    const endless = (res: ServerResponse) => {
      sendForever(res, Buffer.alloc(65_536, 'x'))
    }
    const { app, clock } = await testApp(
      {},
      {
        before: (app) =>
          app.use('/logout', (_req, res) => {
            endless(res)
          })
      }
    )
    const { checks } = await checkService(app, { clock })
    const details = checks.flatMap(({ outcome, detail }) => (outcome === 'failed' ? [detail] : []))
    expect(details).toContain('POST /logout answered more than 1 MiB')
  })

  it('gives a server that others wrote full marks', async () => {
    const { app, clock } = toyAuthServer()
    const report = await checkService(app, { clock })
    expect([idsOf(report, 'failed'), idsOf(report, 'skipped')]).toEqual([[], COOKIE_CHECKS])
  })

  it('knows other paths, a service below a path, and users who have to sign up first', async () => {
    const known = new Set<string>()
    const { app } = await testApp(
      {
        requestAuthPath: '/login/challenge',
        authPath: '/login',
        signupBusinessLogic: ({ issuer }) => void known.add(issuer),
        authenticationBusinessLogic: (did) => known.has(did)
      },
      { prefix: '/api' }
    )
    const lines: string[] = []
    const args = [
      `${await serving(app)}/api/`,
      '--request-auth-path',
      '/login/challenge',
      '--auth-path=/login',
      '--json'
    ]
    const out = (line: string) => lines.push(line)
    expect(await runConformance({ args: [...args, '--sign-up'], env: {}, out, isTerminal: false })).toBe(0)
    const report = JSON.parse(lines.join(''))
    expect(idsOf(report, 'failed')).toEqual([])
    expect(Object.keys(report)).toEqual(['passed', 'total', 'checks'])
  })
})
