import { afterEach, describe, expect, it } from '@jest/globals'
import type { ServerResponse } from 'node:http'
import cors from 'cors'
import type { Express, Request, Response } from 'express'
import type { DidAuthConfig } from 'express-did-auth'
import type { CommandLine } from '../../../../servers/commands/command-line.js'
import { runDoctor, type DoctorOptions } from '../../../../servers/commands/doctor/command.js'
import type { Finding } from '../../../../servers/commands/doctor/finding.js'
import { runCommand } from '../../../support/command-line.js'
import { closeServices, serving } from '../../../support/server-client.js'
import { sendForever } from '../../../support/ipfs-faults.js'
import { deadRpcUrl } from '../../../support/rpc-node.js'
import { breakableStore, testApp, testAuthServer } from '../../../support/test-app.js'

afterEach(closeServices)

const PAGE = 'http://localhost:8080'
const ALLOWED = ['Authorization', 'Content-Type', 'Idempotency-Key']
const EXPOSED = ['Challenge-Expires-In', 'Idempotent-Replayed', 'Retry-After', 'WWW-Authenticate']
const clock = { nowSeconds: () => Math.floor(Date.now() / 1_000) }

/** Starts an application whose service URL is its address, with headers that a proxy or a wrong clock would send. */
async function service(
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

async function doctor(args: string[], env: Record<string, string> = {}, options: DoctorOptions = {}) {
  const run = (commandLine: CommandLine): Promise<number> => runDoctor(commandLine, options)
  const { code, lines } = await runCommand(run, [...args, '--json'], env)
  const { findings } = JSON.parse(lines.join('')) as { findings: Finding[] }
  return { code, findings, ids: findings.map(({ id, level }) => `${level} ${id}`) }
}

describe('doctor <url>', () => {
  it('finds nothing at a service in order, and exits with 0', async () => {
    expect(await doctor([await service()])).toEqual({ code: 0, findings: [], ids: [] })
  })

  it('says that nothing answers there', async () => {
    const { code, findings } = await doctor([await deadRpcUrl()])
    expect([code, findings]).toMatchObject([1, [{ id: 'unavailable', level: 'change' }]])
  })

  it('waits for a silent service, or for one that begins an answer, no longer than its time limit', async () => {
    const silent = await serving(() => undefined)
    const stuck = await serving((_req, res) => void res.writeHead(200).write('{'))
    const startedAt = performance.now()
    for (const url of [silent, stuck]) {
      const { findings } = await doctor([url], {}, { maxMilliseconds: 50 })
      expect(findings).toMatchObject([{ id: 'unavailable', what: `${url}/ does not answer: no answer in time` }])
    }
    // Each single request may take 15 s.
    expect(performance.now() - startedAt).toBeLessThan(14_000)
  })

  it('finds why /ready is 503, and what the server works without', async () => {
    const { store, state } = breakableStore('ping')
    const { listener } = await testAuthServer({ RPC_URL: await deadRpcUrl() }, { store })
    const url = await serving(listener)
    const ofReady = async () => (await doctor([url])).findings.filter(({ id }) => id === 'not-ready')
    const rpc = {
      level: 'note',
      what: '/ready answers 200: rpc is unavailable',
      change: expect.stringContaining('RPC')
    }
    expect(await ofReady()).toMatchObject([rpc])
    state.isBroken = true
    // A remembered answer of the store would be fresh for 5 s.
    const broken = await serving((await testAuthServer({}, { store })).listener)
    expect((await doctor([broken])).findings).toContainEqual(
      expect.objectContaining({
        id: 'not-ready',
        level: 'change',
        what: '/ready answers 503: store is unavailable, connection refused by 10.0.0.7',
        change: expect.stringMatching(/moved files.*DATA_DIR/)
      })
    )
  })

  it('finds that a server is starting or draining, also when it issues no challenge', async () => {
    const starting = (_req: Request, res: ServerResponse) =>
      void res
        .writeHead(503, { 'Content-Type': 'application/json' })
        .end(JSON.stringify({ status: 'starting', dependencies: { store: 'ok' } }))
    const { ids, findings } = await doctor([await serving(starting as never)])
    expect(ids).toEqual(['change no-challenge', 'change not-ready'])
    expect(findings[1]?.what).toBe('/ready answers 503: starting')
  })

  it.each([
    ['HTML', (res: ServerResponse) => res.setHeader('Content-Type', 'text/html').end('<title>Welcome</title>')],
    ['a redirect', (res: ServerResponse) => res.writeHead(302, { Location: 'https://elsewhere.example/' }).end()],
    ['broken JSON', (res: ServerResponse) => res.setHeader('Content-Type', 'application/json').end('{"challenge')],
    ['401 for everything', (res: ServerResponse) => res.writeHead(401).end('Unauthorized')]
  ])('says that there is no such service where the answer is %s', async (_what, answer) => {
    const { code, findings } = await doctor([await serving((_req, res) => void answer(res))])
    expect([code, findings]).toMatchObject([1, [{ id: 'no-challenge', level: 'change' }]])
    expect(findings[0]?.what).toMatch(/^The service issues no challenge: POST \/request-auth answered \d+/)
  })

  it.each(['/logout', '/refresh-token', '/auth'])('continues when %s is not answered', async (path) => {
    const cut = (app: Express) => app.use(path, (req) => void req.socket.destroy())
    const { code, findings } = await doctor([await service({}, {}, cut), '--origin', PAGE])
    expect(code).toBe(1)
    expect(findings).toContainEqual(
      expect.objectContaining({ id: 'unanswered', what: expect.stringContaining('A request was not answered') })
    )
  })

  it('reads no more than 1 MiB of an answer', async () => {
    const endless = (app: Express) => app.use('/siwe/nonce', (_req, res) => sendForever(res, Buffer.alloc(65_536, 'x')))
    const { findings } = await doctor([await service({}, {}, endless)])
    expect(findings).toMatchObject([{ id: 'unanswered', what: expect.stringContaining('more than 1 MiB') }])
  })

  it('prints answers of the service without what commands a terminal', async () => {
    const url = await serving((_req, res) => res.writeHead(500).end('\u009b2J\u202eno'))
    const { lines } = await runCommand(runDoctor, [url])
    expect(lines[0]).toBe(
      'CHANGE  The service issues no challenge: POST /request-auth answered 500 "2Jno" (no-challenge)'
    )
  })

  it('finds a clock that is ten minutes ahead', async () => {
    const Date_ = new Date(Date.now() + 600_000).toUTCString()
    const { findings } = await doctor([await service({}, { Date: Date_ })])
    expect(findings).toMatchObject([
      { id: 'clock', level: 'change', what: expect.stringMatching(/ (?:599|600|601) s /) }
    ])
  })

  it('compares proxies with what the environment trusts', async () => {
    const [direct, proxied] = [await service(), await service({}, { Via: '1.1 proxy' })]
    const env = (SERVICE_URL: string, TRUST_PROXY: string) => ({ SERVICE_URL, TRUST_PROXY })
    expect((await doctor([proxied], env(proxied, 'off'))).ids).toEqual(['change trust-proxy'])
    expect((await doctor([proxied], env(proxied, '1'))).ids).toEqual([])
    expect((await doctor([direct], env(direct, '1'))).ids).toEqual(['change trust-proxy'])
    expect((await doctor([proxied])).ids).toEqual(['note trust-proxy'])
  })

  it('finds what browsers refuse to a page, and its host as a login domain', async () => {
    const url = await service()
    const { findings, code } = await doctor([url, '--origin', PAGE])
    expect(code).toBe(1)
    expect(findings.map(({ what }) => what)).toEqual([
      `A page of ${PAGE} may not read responses`,
      `A page of ${PAGE} may not send authorization, content-type, idempotency-key`,
      `A page of ${PAGE} may not read challenge-expires-in, idempotent-replayed, retry-after, www-authenticate`,
      'localhost:8080 is not a login domain'
    ])
  })

  it('finds a page whose EIP-4361 messages are refused, and a cache that gives one nonce to all', async () => {
    const cache = (app: Express) => app.get('/siwe/nonce', (_req, res) => void res.send('a'.repeat(64)))
    const [url, cached] = [await service({ siwe: true }), await service({ siwe: true }, {}, cache)]
    const foreign = { id: 'siwe-domain', level: 'note', what: `The service refuses EIP-4361 messages of ${PAGE}` }
    expect((await doctor([url, '--origin', PAGE])).findings).toContainEqual(expect.objectContaining(foreign))
    expect(
      (await doctor([await service({ siwe: { domains: ['localhost:8080'] } }), '--origin', PAGE])).ids
    ).not.toContain('note siwe-domain')
    expect((await doctor([cached])).ids).toEqual(['change siwe-nonce'])
  })

  it('finds a header that the cors() of an application forgot', async () => {
    const allow = (app: Express) =>
      app.use(cors({ origin: PAGE, allowedHeaders: ['Authorization', 'Content-Type'], exposedHeaders: '*' }))
    const url = await service({ loginDomains: ['localhost:8080'] }, {}, allow)
    const { findings } = await doctor([url, '--origin', PAGE])
    expect(findings.map(({ what }) => what)).toEqual([`A page of ${PAGE} may not send idempotency-key`])
  })

  it('finds that a page of CORS_ORIGINS is no site of EIP-4361 messages, and nothing about a trusted one', async () => {
    const idsFor = async (env: Record<string, string>) => {
      const { listener } = await testAuthServer({ CORS_ORIGINS: PAGE, ...env })
      return (await doctor([await serving(listener), '--origin', PAGE])).ids
    }
    expect(await idsFor({})).toEqual(['note service-url', 'note siwe-domain', 'note login-domains'])
    const trusted = { TRUSTED_ORIGINS: PAGE, LOGIN_DOMAINS: 'localhost:8080' }
    expect(await idsFor(trusted)).toEqual(['note service-url'])
  })

  it('finds a page whose logins are refused as those of a foreign page', async () => {
    const page = 'http://127.0.0.1:5173'
    const allow = (app: Express) =>
      app.use(cors({ origin: page, credentials: true, allowedHeaders: ALLOWED, exposedHeaders: EXPOSED }))
    const config = { useCookies: true, loginDomains: ['127.0.0.1:5173'] }
    expect((await doctor([await service(config, {}, allow), '--origin', page])).ids).toEqual(['change trusted-origins'])
    const trusting = await service({ ...config, trustedOrigins: [page] }, {}, allow)
    expect((await doctor([trusting, '--origin', page])).ids).toEqual([])
  })

  it('finds pages of another site, to which no browser sends the cookies', async () => {
    const allow = (app: Express) =>
      app.use(
        cors({ origin: 'https://app.example', credentials: true, allowedHeaders: ALLOWED, exposedHeaders: EXPOSED })
      )
    const url = await service({ useCookies: true, loginDomains: ['app.example'] }, {}, allow)
    expect((await doctor([url], { TRUSTED_ORIGINS: 'https://app.example' })).ids).toEqual(['change same-site'])
  })
})
