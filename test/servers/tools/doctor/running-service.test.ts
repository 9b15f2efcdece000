import { afterEach, describe, expect, it } from '@jest/globals'
import type { ServerResponse } from 'node:http'
import cors from 'cors'
import type { Express, Request, Response } from 'express'
import type { DidAuthConfig, SecurityEvent } from 'express-did-auth'
import type { CommandLine } from '../../../../servers/tools/command-line.js'
import { runDoctor, type DoctorOptions } from '../../../../servers/tools/doctor/command.js'
import type { Finding } from '../../../../servers/tools/doctor/finding.js'
import { runCommand } from '../../../support/servers/command-line.js'
import { closeServices, serving } from '../../../support/servers/server-client.js'
import { testVault } from '../../../support/servers/vault-app.js'
import { afterTest } from '../../../support/fixtures/after-test.js'
import { machineConfig } from '../../../support/fixtures/machines.js'
import { sendForever } from '../../../support/faults/ipfs-faults.js'
import { deadRpcUrl } from '../../../support/faults/rpc-node.js'
import { breakableStore, testApp, testAuthServer } from '../../../support/servers/test-app.js'

afterEach(closeServices)

const PAGE = 'http://localhost:8080'
const ALLOWED = ['Authorization', 'Content-Type', 'Idempotency-Key']
const EXPOSED = ['Challenge-Expires-In', 'Idempotent-Replayed', 'Retry-After', 'WWW-Authenticate']
const clock = { nowSeconds: () => Math.floor(Date.now() / 1_000) }

/** Starts an application at its service URL, with headers that a proxy or a wrong clock would send. */
async function startService(
  config: Partial<DidAuthConfig> = {},
  headers: Record<string, string> = {},
  before?: (app: Express) => void
) {
  let answer: (req: Request, res: Response) => void = () => undefined
  const url = await serving((req, res) => {
    for (const [name, value] of Object.entries(headers)) res.setHeader(name, value)
    answer(req as Request, res as Response)
  })
  const { app } = await testApp({ serviceUrl: url, clock, ...config }, before === undefined ? {} : { before })
  answer = app
  return url
}

async function diagnose(args: string[], createEnv: Record<string, string> = {}, options: DoctorOptions = {}) {
  const run = (commandLine: CommandLine): Promise<number> => runDoctor(commandLine, options)
  const { code, lines } = await runCommand(run, [...args, '--json'], createEnv)
  const { findings } = JSON.parse(lines.join('')) as { findings: Finding[] }
  return { code, findings, ids: findings.map(({ id, level }) => `${level} ${id}`) }
}

describe('the command doctor <url>', () => {
  it('finds nothing wrong with a valid service, and exits with 0', async () => {
    expect(await diagnose([await startService()])).toEqual({ code: 0, findings: [], ids: [] })
  })

  it('notes that OAuth clients cannot find the token endpoint of a service below a path', async () => {
    const { app } = await testApp({ ...machineConfig, clock }, { prefix: '/api' })
    const { findings } = await diagnose([`${await serving(app)}/api`])
    const [finding] = findings.filter(({ id }) => id === 'oauth-metadata')
    const change = 'pass the path /.well-known/oauth-authorization-server/api of the host on to the service'
    expect(finding).toMatchObject({ level: 'note', change })
    expect((await diagnose([await startService(machineConfig)])).ids).toEqual([])
  })

  it('finds a proxy that decodes %2F in keys of the vault', async () => {
    const vault = await testVault()
    afterTest(() => vault.close())
    const decode = await serving((req, res) => {
      req.url = req.url?.replaceAll('%2F', '/')
      vault.listener(req, res)
    })
    const find = async (url: string) => (await diagnose([url])).ids.filter((id) => id.endsWith('encoded-slash'))
    expect(await find(decode)).toEqual(['change encoded-slash'])
    expect(await find(await serving(vault.listener))).toEqual([])
  })

  it('reports that no server responds at the URL', async () => {
    const { code, findings } = await diagnose([await deadRpcUrl()])
    expect([code, findings]).toMatchObject([1, [{ id: 'unavailable', level: 'change' }]])
  })

  it('limits the wait for a service that is silent or stops in the middle of a response', async () => {
    const silent = await serving(() => undefined)
    const stuck = await serving((_req, res) => void res.writeHead(200).write('{'))
    for (const url of [silent, stuck]) {
      const { findings } = await diagnose([url], {}, { maxMilliseconds: 50 })
      expect(findings).toMatchObject([{ id: 'unavailable', what: `${url}/ does not answer: no answer in time` }])
    }
  })

  it('explains why /ready is 503, and names an optional dependency that is unavailable', async () => {
    const { store, state } = breakableStore('ping')
    const { listener } = await testAuthServer({ RPC_URL: await deadRpcUrl() }, { store })
    const url = await serving(listener)
    const findReadiness = async () => (await diagnose([url])).findings.filter(({ id }) => id === 'not-ready')
    const rpc = {
      level: 'note',
      what: '/ready answers 200: rpc is unavailable',
      change: expect.stringContaining('RPC')
    }
    expect(await findReadiness()).toMatchObject([rpc])
    state.isBroken = true
    // A new server, because the readiness of the first one is cached for 5 s.
    const broken = await serving((await testAuthServer({}, { store })).listener)
    expect((await diagnose([broken])).findings).toContainEqual(
      expect.objectContaining({
        id: 'not-ready',
        level: 'change',
        what: '/ready answers 503: store is unavailable, connection refused by 10.0.0.7',
        change: expect.stringMatching(/moved files.*DATA_DIR/)
      })
    )
  })

  it('reports that a server is starting, also if it issues no challenge', async () => {
    const starting = (_req: Request, res: ServerResponse) =>
      void res
        .writeHead(503, { 'Content-Type': 'application/json' })
        .end(JSON.stringify({ status: 'starting', dependencies: { store: 'ok' } }))
    const { ids, findings } = await diagnose([await serving(starting as never)])
    expect(ids).toEqual(['change no-challenge', 'change not-ready'])
    expect(findings[1]?.what).toBe('/ready answers 503: starting')
  })

  it.each([
    ['HTML', (res: ServerResponse) => res.setHeader('Content-Type', 'text/html').end('<title>Welcome</title>')],
    ['a redirect', (res: ServerResponse) => res.writeHead(302, { Location: 'https://elsewhere.example/' }).end()],
    ['broken JSON', (res: ServerResponse) => res.setHeader('Content-Type', 'application/json').end('{"challenge')],
    ['401 for everything', (res: ServerResponse) => res.writeHead(401).end('Unauthorized')]
  ])('reports that the URL issues no challenge if the response is %s', async (_what, answer) => {
    const { code, findings } = await diagnose([await serving((_req, res) => void answer(res))])
    expect([code, findings]).toMatchObject([1, [{ id: 'no-challenge', level: 'change' }]])
    expect(findings[0]?.what).toMatch(/^The service issues no challenge: POST \/request-auth answered \d+/)
  })

  it.each(['/logout', '/refresh-token', '/auth'])('continues when %s gets no response', async (path) => {
    const cut = (app: Express) => app.use(path, (req) => void req.socket.destroy())
    const { code, findings } = await diagnose([await startService({}, {}, cut), '--origin', PAGE])
    expect(code).toBe(1)
    expect(findings).toContainEqual(
      expect.objectContaining({ id: 'unanswered', what: expect.stringContaining('A request was not answered') })
    )
  })

  it('reads at most 1 MiB of a response', async () => {
    const sendEndlessly = (app: Express) =>
      app.use('/siwe/nonce', (_req, res) => sendForever(res, Buffer.alloc(65_536, 'x')))
    const { findings } = await diagnose([await startService({}, {}, sendEndlessly)])
    expect(findings).toMatchObject([{ id: 'unanswered', what: expect.stringContaining('more than 1 MiB') }])
  })

  it('strips terminal control characters from responses of the service', async () => {
    const url = await serving((_req, res) => res.writeHead(500).end('\u009b2J\u202eno'))
    const { lines } = await runCommand(runDoctor, [url])
    expect(lines[0]).toBe(
      'CHANGE  The service issues no challenge: POST /request-auth answered 500 "2Jno" (no-challenge)'
    )
  })

  it('finds a clock that is ten minutes ahead', async () => {
    const Date_ = new Date(Date.now() + 600_000).toUTCString()
    const { findings } = await diagnose([await startService({}, { Date: Date_ })])
    expect(findings).toMatchObject([
      { id: 'clock', level: 'change', what: expect.stringMatching(/ (?:599|600|601) s /) }
    ])
  })

  it('compares proxies in front of the service with TRUST_PROXY', async () => {
    const [direct, proxied] = [await startService(), await startService({}, { Via: '1.1 proxy' })]
    const env = (SERVICE_URL: string, TRUST_PROXY: string) => ({ SERVICE_URL, TRUST_PROXY })
    expect((await diagnose([proxied], env(proxied, 'off'))).ids).toEqual(['change trust-proxy'])
    expect((await diagnose([proxied], env(proxied, '1'))).ids).toEqual([])
    expect((await diagnose([direct], env(direct, '1'))).ids).toEqual(['change trust-proxy'])
    expect((await diagnose([proxied])).ids).toEqual(['note trust-proxy'])
  })

  it('finds headers that browsers refuse to a page, and a host that is no login domain', async () => {
    const url = await startService()
    const { findings, code } = await diagnose([url, '--origin', PAGE])
    expect(code).toBe(1)
    expect(findings.map(({ what }) => what)).toEqual([
      `A page of ${PAGE} may not read responses`,
      `A page of ${PAGE} may not send authorization, content-type, idempotency-key`,
      `A page of ${PAGE} may not read challenge-expires-in, idempotent-replayed, retry-after, www-authenticate`,
      'localhost:8080 is not a login domain'
    ])
  })

  it('finds a page whose EIP-4361 messages are refused, and a cache that repeats one nonce', async () => {
    const cache = (app: Express) => app.get('/siwe/nonce', (_req, res) => void res.send('a'.repeat(64)))
    const [url, cached] = [await startService({ siwe: true }), await startService({ siwe: true }, {}, cache)]
    const foreign = { id: 'siwe-domain', level: 'note', what: `The service refuses EIP-4361 messages of ${PAGE}` }
    expect((await diagnose([url, '--origin', PAGE])).findings).toContainEqual(expect.objectContaining(foreign))
    expect(
      (await diagnose([await startService({ siwe: { domains: ['localhost:8080'] } }), '--origin', PAGE])).ids
    ).not.toContain('note siwe-domain')
    expect((await diagnose([cached])).ids).toEqual(['change siwe-nonce'])
  })

  it('finds a header that the cors() options of an application lack', async () => {
    const allow = (app: Express) =>
      app.use(cors({ origin: PAGE, allowedHeaders: ['Authorization', 'Content-Type'], exposedHeaders: '*' }))
    const url = await startService({ loginDomains: ['localhost:8080'] }, {}, allow)
    const { findings } = await diagnose([url, '--origin', PAGE])
    expect(findings.map(({ what }) => what)).toEqual([`A page of ${PAGE} may not send idempotency-key`])
  })

  it('finds that a page may not send the device proofs of a service that announces them', async () => {
    const allow = (app: Express) => app.use(cors({ origin: PAGE, allowedHeaders: ALLOWED, exposedHeaders: EXPOSED }))
    const config = { deviceBinding: 'accepted', discovery: true, loginDomains: ['localhost:8080'] } as const
    const { findings } = await diagnose([await startService(config, {}, allow), '--origin', PAGE])
    expect(findings.map(({ what }) => what)).toEqual([
      `A page of ${PAGE} may not send dpop`,
      `A page of ${PAGE} may not read dpop-nonce`
    ])
  })

  it.each([false, true])('ends each session that it opens, with useCookies: %j', async (useCookies) => {
    const types: string[] = []
    const onSecurityEvent = ({ type }: SecurityEvent) => void types.push(type)
    const url = await startService({ useCookies, siwe: true, loginDomains: ['localhost:8080'], onSecurityEvent })
    await diagnose([url, '--origin', PAGE])
    const opened = types.filter((type) => type === 'login' || type === 'logout')
    expect(opened.sort()).toEqual(['login', 'login', 'logout', 'logout'])
  })

  it('finds a page of CORS_ORIGINS that is no EIP-4361 domain, and accepts a trusted page', async () => {
    const findIds = async (env: Record<string, string>) => {
      const { listener } = await testAuthServer({ CORS_ORIGINS: PAGE, ...env })
      return (await diagnose([await serving(listener), '--origin', PAGE])).ids
    }
    expect(await findIds({})).toEqual(['note service-url', 'note siwe-domain', 'note login-domains'])
    const trusted = { TRUSTED_ORIGINS: PAGE, LOGIN_DOMAINS: 'localhost:8080' }
    expect(await findIds(trusted)).toEqual(['note service-url'])
  })

  it('finds a page whose logins are refused as cross-origin', async () => {
    const page = 'http://127.0.0.1:5173'
    const allow = (app: Express) =>
      app.use(cors({ origin: page, credentials: true, allowedHeaders: ALLOWED, exposedHeaders: EXPOSED }))
    const config = { useCookies: true, loginDomains: ['127.0.0.1:5173'] }
    expect((await diagnose([await startService(config, {}, allow), '--origin', page])).ids).toEqual([
      'change trusted-origins'
    ])
    const trusting = await startService({ ...config, trustedOrigins: [page] }, {}, allow)
    expect((await diagnose([trusting, '--origin', page])).ids).toEqual([])
  })

  it('finds pages of another site, to which browsers send no cookies', async () => {
    const allow = (app: Express) =>
      app.use(
        cors({ origin: 'https://app.example', credentials: true, allowedHeaders: ALLOWED, exposedHeaders: EXPOSED })
      )
    const url = await startService({ useCookies: true, loginDomains: ['app.example'] }, {}, allow)
    expect((await diagnose([url], { TRUSTED_ORIGINS: 'https://app.example' })).ids).toEqual(['change same-site'])
  })
})
