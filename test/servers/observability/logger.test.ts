import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { writeLine, logRequest, createServerLog } from '../../../servers/observability/logger.js'
import { nameVariables } from '../../../servers/config/variable-names.js'
import { testAuthServer } from '../../support/servers/test-app.js'

/** Writes to a log, and returns its lines. */
function writeLines(
  format: 'pretty' | 'json' | undefined,
  isTerminal: boolean,
  write: (log: ReturnType<typeof createServerLog>) => void
): string[] {
  const lines: string[] = []
  const env = { LOG_LEVEL: 'info' as const, LOG_FORMAT: format, name: 'auth' as const }
  write(createServerLog(env, isTerminal, { write: (line: string) => lines.push(line) }))
  return lines
}

const hideTime = (line: string): string => line.replace(/^\d\d:\d\d:\d\d\.\d{3}/, 'TIME')

describe('createServerLog', () => {
  it.each([
    [undefined, true, 'pretty'],
    [undefined, false, 'json'],
    ['json', true, 'json'],
    ['pretty', false, 'pretty']
  ] as const)('uses for LOG_FORMAT %s, terminal %s, the format %s', (format, isTerminal, expected) => {
    const [line = ''] = writeLines(format, isTerminal, (log) => log.info({ event: 'a' }, 'text'))
    expect(line.startsWith('{') ? 'json' : 'pretty').toBe(expected)
    expect(line.endsWith('\n')).toBe(true)
  })

  it('writes one readable line per event on a terminal', () => {
    const lines = writeLines('pretty', true, (log) => {
      writeLine(log, { event: 'ready', url: 'http://127.0.0.1:3000' }, 'ready at http://localhost:3000')
      const code = 'ERR_ACCESS_TOKEN'
      logRequest(log, { method: 'GET', route: '/me', status: 401, code, requestId: 'a-1', seconds: 0.0012345 })
      logRequest(log, { method: 'GET', route: '/ready', status: 503, seconds: 0.001 })
      for (const route of ['/ready', '/health']) logRequest(log, { method: 'GET', route, status: 200, seconds: 0.001 })
      log.warn({ event: 'first-refusal', code: 'ERR_DID', reason: { check: 'did' }, text: 'two words' }, 'refused')
      log.debug({ event: 'request-refused' }, 'not at this level')
    })
    expect(lines.map(hideTime)).toEqual([
      'TIME  INFO   auth   ready at http://localhost:3000\n',
      'TIME  INFO   auth   GET /me 401 1.235 ms ERR_ACCESS_TOKEN requestId=a-1\n',
      'TIME  INFO   auth   GET /ready 503 1 ms\n',
      'TIME  WARN   auth   refused  code=ERR_DID  reason={"check":"did"}  text="two words"\n'
    ])
  })

  it('escapes a line feed in a field', () => {
    const lines = writeLines('pretty', true, (log) => log.info({ text: 'a\nb' }, 'message'))
    expect(lines.map(hideTime)).toEqual(['TIME  INFO   auth   message  text="a\\nb"\n'])
  })
})

describe('the log of the auth server', () => {
  it('contains the code of a refusal in the line of its request', async () => {
    const { listener, log } = await testAuthServer()
    await request(listener).get('/me').expect(401)
    await request(listener).get('/nowhere').expect(404)
    await request(listener).get('/session').expect(200)
    const codes = log().flatMap(({ event, status, code }) => (event === 'request' ? [[status, code]] : []))
    expect(codes).toEqual([
      [401, 'ERR_ACCESS_TOKEN_MISSING'],
      [404, 'ERR_NOT_FOUND'],
      [200, undefined]
    ])
  })

  // Cause: warnings named options of the library, which an operator cannot set.
  it('names the variable that caused a refusal', async () => {
    const { listener, log } = await testAuthServer({ NETWORKS: 'sepolia', SIWE: 'false' })
    const did = 'did:ethr:rsk:0x7e5f4552091a69125d5dfcb7b8c2659029395bdf'
    await request(listener).post('/request-auth').set('X-Forwarded-For', '1.2.3.4').send({ did }).expect(401)
    await request(listener).get('/me').expect(401)
    const warnings = log().flatMap(({ level, msg }) => (level === 'warn' ? [msg] : []))
    expect(warnings).toEqual([
      'X-Forwarded-For seen, but TRUST_PROXY is off: all callers share one address',
      'first refusal of this code: the variable NETWORKS decides; later ones are logged at debug',
      'first refusal of this code: LOG_LEVEL=debug shows the reason'
    ])
    expect(log()).toContainEqual(expect.objectContaining({ reason: expect.objectContaining({ option: 'NETWORKS' }) }))
  })
})

describe('nameVariables', () => {
  it.each([
    ["more entries than the app's `trust proxy` covers", 'more entries than TRUST_PROXY covers'],
    ['  - networks: received []; give one', '  - NETWORKS: received []; give one'],
    ['serviceSigner is not the key of serviceDid', 'PRIVATE_KEY is not the key of SERVICE_DID'],
    ['the option siwe decides', 'the variable TRUSTED_ORIGINS decides'],
    ['the option contractWallets decides', 'the option contractWallets decides'],
    ['one of loginDomains, serviceUrl, siwe.domains', 'one of LOGIN_DOMAINS, SERVICE_URL'],
    ['received true without resources, resourceKeys; give all', 'received true without RESOURCES; give all'],
    ['resources of networks, tokenClaims', 'resources of networks, tokenClaims']
  ])('turns %j into %j', (text, named) => expect(nameVariables(text)).toBe(named))
})
