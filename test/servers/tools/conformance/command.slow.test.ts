import { afterEach, describe, expect, it } from '@jest/globals'
import type { ServerResponse } from 'node:http'
import { runConformance } from '../../../../servers/tools/conformance/command.js'
import { runCommand } from '../../../support/servers/command-line.js'
import { checkService, COOKIE_CHECKS, listIds } from '../../../support/servers/conformance.js'
import { closeServices, serving } from '../../../support/servers/server-client.js'
import { machineConfig } from '../../../support/fixtures/machines.js'
import { sendForever } from '../../../support/faults/ipfs-faults.js'
import { testApp, testAuthServer } from '../../../support/servers/test-app.js'
import { startToyAuthServer } from '../../../support/faults/toy-auth-server.js'
import { testVault } from '../../../support/servers/vault-app.js'

afterEach(closeServices)

describe('the command conformance', () => {
  it('finds no fault in EIP-4361 of the library, and checks it only if the routes exist', async () => {
    const report = await checkService((await testAuthServer()).listener)
    const section = report.checks.filter(({ id }) => id.startsWith('siwe-'))
    expect(section.map(({ outcome }) => outcome)).toEqual([...Array(12).fill('passed'), 'skipped', 'skipped'])
    const { checks } = await checkService((await testApp()).app)
    expect(checks.filter(({ id }) => id.startsWith('siwe-'))).toEqual([])
  })

  it('finds no fault in the list of ended sessions of the library, and checks it only if it exists', async () => {
    const [withList, without] = [await testApp({ endedSessions: true }, { prefix: '/api' }), await testApp()]
    const reports = [
      await checkService(withList.app, { clock: withList.clock, path: '/api' }),
      await checkService(without.app, { clock: without.clock })
    ]
    const outcomes = reports.map(({ checks }) =>
      checks.flatMap(({ id, outcome }) => (id.startsWith('ended-sessions-') ? [outcome] : []))
    )
    expect(outcomes).toEqual([Array(6).fill('passed'), []])
  })

  it('finds no fault in the device binding of the library, and checks it only if it is announced', async () => {
    const config = { deviceBinding: 'accepted', discovery: true, maxRequestsPerTimeSlot: 100 } as const
    const [bound, cookies] = [await testApp(config, { prefix: '/api' }), await testApp({ ...config, useCookies: true })]
    const plain = await testApp({ discovery: true })
    const reports = [
      await checkService(bound.app, { clock: bound.clock, path: '/api' }),
      await checkService(cookies.app, { clock: cookies.clock }),
      await checkService(plain.app, { clock: plain.clock })
    ]
    const outcomes = reports.map(({ checks }) =>
      checks.flatMap(({ id, outcome }) => (id.startsWith('device-') ? [outcome] : []))
    )
    expect(outcomes).toEqual([Array(5).fill('passed'), Array(5).fill('passed'), []])
  })

  it('finds no fault in machine login of the library, and checks it only where new machines may log in', async () => {
    const config = { ...machineConfig, maxRequestsPerTimeSlot: 1_000 }
    const authenticationBusinessLogic = (_did: string, { machine }: { machine?: true }) => machine !== true
    const services = [
      await testApp(config, { prefix: '/api' }),
      await testApp({ ...config, authenticationBusinessLogic }, { prefix: '/api' })
    ]
    const outcomes: string[][] = []
    for (const { app, clock } of services) {
      const { checks } = await checkService(app, { clock, path: '/api', protectedPath: '/me' })
      outcomes.push(checks.flatMap(({ id, outcome }) => (id.startsWith('machine-') ? [outcome] : [])))
    }
    expect(outcomes).toEqual([Array(6).fill('passed'), [...Array<string>(5).fill('skipped'), 'passed']])
  })

  it('tells why it cannot check a service that requires device proofs', async () => {
    const { app, clock } = await testApp({ deviceBinding: 'required', discovery: true })
    const { passed, checks } = await checkService(app, { clock })
    expect(passed).toBe(0)
    expect(checks[0]?.detail).toMatch(/"Invalid device proof"; if it requires device proofs, check it with "accepted"$/)
  })

  it.each([
    ['in bodies', {}, COOKIE_CHECKS, ['siwe-csrf', 'siwe-cookies']],
    ['in cookies', { USE_COOKIES: 'true' }, [], []]
  ] as const)(
    'finds no fault in auth and vault with tokens %s, and skips a check that takes ten minutes',
    async (_how, env, skipped, skippedAtAuth) => {
      const vault = await testVault(env)
      const auth = await testAuthServer(env)
      const reports = [
        await checkService(auth.listener),
        // The vault has no /me: /storage is one of its guarded routes.
        await checkService(vault.listener, { protectedPath: '/storage' })
      ]
      await vault.close()
      for (const [at, report] of reports.entries()) {
        const skippedChecks = ['guard-expired-token', ...skipped, ...(at === 0 ? skippedAtAuth : [])]
        expect([listIds(report, 'failed'), listIds(report, 'skipped')]).toEqual([[], skippedChecks])
        expect(report.total).toBeGreaterThanOrEqual(45)
      }
    }
  )

  it('reads at most 1 MiB of a response, and fails the checks that requested it', async () => {
    const sendEndlessly = (res: ServerResponse) => sendForever(res, Buffer.alloc(65_536, 'x'))
    const { app, clock } = await testApp({}, { before: (app) => app.use('/logout', (_req, res) => sendEndlessly(res)) })
    const { checks } = await checkService(app, { clock })
    const details = checks.flatMap(({ outcome, detail }) => (outcome === 'failed' ? [detail] : []))
    expect(details).toContain('POST /logout answered with more than 1 MiB')
  })

  it('passes no check of a server that refuses every request', async () => {
    const report = await checkService((_req, res) => res.writeHead(401, { 'Content-Type': 'text/plain' }).end('No'))
    expect([report.passed, report.total > 45]).toEqual([0, true])
    expect(report.checks[0]?.detail).toMatch(
      /^not checked, because a valid login fails: the login opened no session: POST \/auth answered 401/
    )
  })

  it('fails the token checks of a guarded route that refuses valid tokens too', async () => {
    const { app, clock } = await testApp(
      {},
      { before: (app) => app.use('/me', (_req, res) => void res.status(401).end()) }
    )
    const failed = listIds(await checkService(app, { clock }), 'failed')
    expect(failed).toEqual(expect.arrayContaining(['guard-accepts', 'guard-alg-none', 'guard-foreign-key']))
  })

  it('finds no fault if errors are problem details by default', async () => {
    const { app, clock } = await testApp({ errorFormat: 'problem' })
    expect(listIds(await checkService(app, { clock }), 'failed')).toEqual([])
  })

  it.each(['POST', 'GET'])('uses %s for challenges if the service accepts only that method', async (form) => {
    const { app, clock } = await testApp(
      {},
      {
        before: (app) =>
          app.use((req, res, next) => {
            if (req.path.startsWith('/request-') && req.method !== form) res.status(404).end()
            else next()
          })
      }
    )
    const failed = listIds(await checkService(app, { clock }), 'failed')
    expect(failed).toEqual([form === 'POST' ? 'challenge-get' : 'challenge-post'])
  })

  // Cause: the search for a stack restarted at each line feed of a run, and took quadratic time.
  it('reads a response of 1,000,000 line feeds only once', async () => {
    const { app, clock } = await testApp(
      {},
      { before: (app) => app.use('/logout', (_req, res) => void res.status(400).end('\n'.repeat(1_000_000))) }
    )
    expect(listIds(await checkService(app, { clock }), 'failed')).toContain('logout')
  })

  it('prints no terminal control characters, neither as text nor as JSON', async () => {
    const evil = '\u009b31m \u202e \u{e0001} \u001b[2J'
    const url = await serving((_req, res) =>
      res.writeHead(400, { 'Content-Type': 'text/plain; charset=utf-8' }).end(evil)
    )
    for (const args of [[url], [url, '--json']]) {
      const { lines } = await runCommand(runConformance, args)
      expect(lines.filter((line) => /[\p{Cc}\p{Cf}]/u.test(line))).toEqual([])
      if (args.length > 1) expect(JSON.parse(lines[0]!).checks[0].detail).toContain('\u009b31m \u202e \u{e0001}')
    }
  })

  it('finds no fault in a server that does not use this library', async () => {
    const { app, clock } = startToyAuthServer()
    const report = await checkService(app, { clock })
    expect([listIds(report, 'failed'), listIds(report, 'skipped')]).toEqual([[], COOKIE_CHECKS])
  })

  it('checks the pages of each --origin', async () => {
    const { app } = await testApp({ loginDomains: ['app.example'] })
    const url = await serving(app)
    const args = [url, '--origin', 'https://app.example', '--origin', 'http://localhost:8080', '--json']
    const { code, lines } = await runCommand(runConformance, args)
    const failures = JSON.parse(lines.join('')).checks.filter(
      ({ outcome }: { outcome: string }) => outcome === 'failed'
    )
    expect(code).toBe(1)
    expect(failures.map(({ id, rule }: { id: string; rule: string }) => `${rule.split(': ')[0]} ${id}`)).toEqual([
      'https://app.example page-cors',
      'http://localhost:8080 page-cors',
      'http://localhost:8080 page-login'
    ])
    expect(failures[0].detail).toMatch(
      /^A page of https:\/\/app\.example may not read responses; A page of .* may not send /
    )
  })

  it('supports other paths, a service below a path, and users who have to sign up first', async () => {
    const signedUp = new Set<string>()
    const { app } = await testApp(
      {
        requestAuthPath: '/login/challenge',
        authPath: '/login',
        signupBusinessLogic: ({ issuer }) => void signedUp.add(issuer),
        authenticationBusinessLogic: (did) => signedUp.has(did)
      },
      { prefix: '/api' }
    )
    const paths = ['--request-auth-path', '/login/challenge', '--auth-path=/login']
    const args = [`${await serving(app)}/api/`, ...paths, '--json', '--sign-up']
    const { code, lines } = await runCommand(runConformance, args)
    expect(code).toBe(0)
    const report = JSON.parse(lines.join(''))
    expect(listIds(report, 'failed')).toEqual([])
    expect(Object.keys(report)).toEqual(['passed', 'total', 'checks'])
  })
})
