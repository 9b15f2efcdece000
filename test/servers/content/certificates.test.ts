import { describe, expect, it } from '@jest/globals'
import { inspect } from 'node:util'
import { readEnv } from '../../../servers/config/read-env.js'
import { Connections } from '../../../servers/content/connections.js'
import { afterTest } from '../../support/fixtures/after-test.js'
import { startTlsEngine, type CertificateName } from '../../support/servers/tls-engine.js'

const engines = {
  PostgreSQL: ['the database (DATABASE_URL)', 'DATABASE_URL', 'DATABASE_SSL_CA'],
  Redis: ['Redis (REDIS_URL)', 'REDIS_URL', 'REDIS_SSL_CA']
} as const

/** Opens the connections of a server to an engine with a certificate. */
async function open(engine: keyof typeof engines, certificate: CertificateName, hasCa: boolean, query = '') {
  const { port, caFile, handshakes, close } = await startTlsEngine(engine, certificate)
  afterTest(close)
  const url = engine === 'Redis' ? `rediss://localhost:${port}` : `postgres://u@localhost:${port}/d${query}`
  const [, urlVariable, caVariable] = engines[engine]
  const env = readEnv({ [urlVariable]: url, ...(hasCa && { [caVariable]: caFile }) }, 'auth', false, 'operate')
  const opening = Connections.open(env).then((connections) => connections.close())
  return { opening, handshakes }
}

describe.each(Object.keys(engines) as (keyof typeof engines)[])('the certificate of %s', (engine) => {
  const [name, url, ca] = engines[engine]
  const query = '?sslmode=verify-full'

  it.each<[CertificateName, boolean, string]>([
    ['self-signed', false, `self-signed certificate; set ${ca} to a file with the certificate of its authority`],
    ['self-signed', true, `self-signed certificate; set ${ca} to a file with the certificate of its authority`],
    [
      'valid',
      false,
      `an unknown authority issued its certificate; set ${ca} to a file with the certificate of its authority`
    ],
    ['wrong name', true, `its certificate names another host; give a host name of the certificate in ${url}`],
    ['expired', true, 'its certificate has expired; renew the certificate on that machine, and check both clocks']
  ])(
    'ends the start if it is refused, and names the remedy: %s, with its authority: %s',
    async (kind, hasCa, reason) => {
      const { opening, handshakes } = await open(engine, kind, hasCa, query)
      await expect(opening).rejects.toThrow(`Cannot use ${name}: ${reason}`)
      expect(handshakes()).toBe(0)
    }
  )

  it('is accepted if it is valid, and the engine then counts as unavailable until it answers', async () => {
    const { opening, handshakes } = await open(engine, 'valid', true, query)
    await opening
    expect(handshakes()).toBeGreaterThan(0)
  })
})

it.each(['', '?ssl=true', '?ssl=0', '?sslmode=disable', '?sslmode=no-verify', '?sslmode=require&uselibpqcompat=true'])(
  'DATABASE_SSL_CA alone decides about TLS, whatever the URL says: %j',
  async (query) => {
    const accepted = await open('PostgreSQL', 'valid', true, query)
    await accepted.opening
    expect(accepted.handshakes()).toBeGreaterThan(0)
    const refused = await open('PostgreSQL', 'self-signed', true, query)
    await expect(refused.opening).rejects.toThrow('self-signed certificate')
  }
)

it.each([
  ['redis://host:1/0?ssl=true', 'a Redis URL has no parameters: remove ssl. For TLS, give rediss://'],
  ['redis://:pass@host?timeout=5&x=hunter2', 'a Redis URL has no parameters: remove timeout. For TLS, give rediss://'],
  ['redis://:hunter2/?a=b@host', 'encode the password with encodeURIComponent']
])('a REDIS_URL with a query is refused by the name of its parameter: %s', async (REDIS_URL, message) => {
  const reasons: unknown[] = []
  await Connections.open(readEnv({ REDIS_URL }, 'auth', false, 'operate')).catch((error: unknown) =>
    reasons.push(error)
  )
  const text = inspect(reasons)
  expect(text).toContain('Cannot use Redis (REDIS_URL): ')
  expect(text).toContain(message)
  expect(text).not.toContain('hunter2')
})

it('REDIS_SSL_CA is refused with a URL without TLS, which would ignore it', async () => {
  const { caFile, close } = await startTlsEngine('Redis', 'valid')
  afterTest(close)
  const env = readEnv({ REDIS_URL: 'redis://localhost', REDIS_SSL_CA: caFile }, 'auth', false, 'operate')
  await expect(Connections.open(env)).rejects.toThrow(/^REDIS_SSL_CA needs a REDIS_URL with TLS, rediss:\/\/$/)
})
