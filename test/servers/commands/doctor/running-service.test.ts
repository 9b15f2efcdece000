import { afterEach, describe, expect, it } from '@jest/globals'
import cors from 'cors'
import type { Express, Request, Response } from 'express'
import type { DidAuthConfig } from 'express-did-auth'
import { runDoctor } from '../../../../servers/commands/doctor/command.js'
import type { Finding } from '../../../../servers/commands/doctor/finding.js'
import { closeServices, serving } from '../../../support/conformance.js'
import { deadRpcUrl } from '../../../support/rpc-node.js'
import { testApp, testAuthServer } from '../../../support/test-app.js'

afterEach(closeServices)

const PAGE = 'http://localhost:8080'
const ALLOWED = ['Authorization', 'Content-Type', 'Idempotency-Key']
const EXPOSED = ['Challenge-Expires-In', 'Idempotent-Replayed', 'Retry-After', 'WWW-Authenticate']
const clock = { nowSeconds: () => Math.floor(Date.now() / 1_000) }

/** Starts an application whose service URL is its address, and with headers that a proxy or a wrong clock would send. */
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

async function doctor(args: string[], env: Record<string, string> = {}) {
  const lines: string[] = []
  const code = await runDoctor({ args: [...args, '--json'], env, out: (line) => lines.push(line), isTerminal: false })
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

  it('finds a clock that is ten minutes ahead', async () => {
    const Date_ = new Date(Date.now() + 600_000).toUTCString()
    const { findings } = await doctor([await service({}, { Date: Date_ })])
    expect(findings).toMatchObject([
      { id: 'clock', level: 'change', what: expect.stringMatching(/ (?:599|600|601) s /) }
    ])
  })

  it('finds a secret that it guesses from a challenge', async () => {
    expect((await doctor([await service({ challengeSecret: 'theSuperSecret' })])).ids).toEqual(['change weak-secret'])
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
      `A page of ${PAGE} may not read answers`,
      `A page of ${PAGE} may not send authorization, content-type, idempotency-key`,
      `A page of ${PAGE} may not read challenge-expires-in, idempotent-replayed, retry-after, www-authenticate`,
      'localhost:8080 is no login domain'
    ])
  })

  it('finds a header that the cors() of an application forgot', async () => {
    const allow = (app: Express) =>
      app.use(cors({ origin: PAGE, allowedHeaders: ['Authorization', 'Content-Type'], exposedHeaders: '*' }))
    const url = await service({ loginDomains: ['localhost:8080'] }, {}, allow)
    const { findings } = await doctor([url, '--origin', PAGE])
    expect(findings.map(({ what }) => what)).toEqual([`A page of ${PAGE} may not send idempotency-key`])
  })

  it('finds nothing about the pages that the servers allow', async () => {
    const { listener } = await testAuthServer({ CORS_ORIGINS: PAGE, LOGIN_DOMAINS: 'localhost:8080' })
    const { ids } = await doctor([await serving(listener), '--origin', PAGE])
    expect(ids).toEqual(['note service-url'])
  })

  it('finds pages of another site, to which no browser sends the cookies', async () => {
    const allow = (app: Express) =>
      app.use(
        cors({ origin: 'https://app.example', credentials: true, allowedHeaders: ALLOWED, exposedHeaders: EXPOSED })
      )
    const url = await service({ useCookies: true, loginDomains: ['app.example'] }, {}, allow)
    expect((await doctor([url], { TRUSTED_ORIGINS: 'https://app.example' })).ids).toEqual(['change same-site'])
  })

  it('tells which dependency the service misses', async () => {
    const { listener } = await testAuthServer({ RPC_URL: await deadRpcUrl() })
    expect((await doctor([await serving(listener)])).ids).toEqual(['note service-url', 'note not-ready'])
  })
})
