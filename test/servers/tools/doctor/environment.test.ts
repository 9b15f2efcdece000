import { afterAll, describe, expect, it } from '@jest/globals'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { didOfPrivateKey } from 'express-did-auth'
import { runDoctor, type DoctorOptions } from '../../../../servers/tools/doctor/command.js'
import { isWeak } from '../../../../servers/tools/doctor/environment.js'
import type { Finding } from '../../../../servers/tools/doctor/finding.js'
import { runCommand } from '../../../support/servers/command-line.js'
import { serving, closeServices } from '../../../support/servers/server-client.js'
import { afterTest } from '../../../support/fixtures/after-test.js'
import { startIssuer } from '../../../support/servers/resource-tokens.js'
import { answeringResults, deadRpcUrl } from '../../../support/faults/rpc-node.js'
import { temporaryFolder } from '../../../support/fixtures/store-folder.js'

const folder = temporaryFolder()
afterAll(() => {
  closeServices()
  folder.remove()
})

const SECRET = '5f0c2b1e9a8d7c6b5a4938271605f4e3d2c1b0a99887766554433221100ffeed'
const KEY = '8f2a559490d5a3c1b7e6f0912d34c5a6978812fedcba0987654321abcdef0123'
const VALID_ENV = { DATA_DIR: folder.path, PRIVATE_KEY: KEY, CHALLENGE_SECRET: SECRET, PAGE: 'false' }

/**
 * Runs doctor with VALID_ENV and `env`. It uses no public RPC node and no address of this machine, and reads a disk
 * usage of 50 %.
 * @returns `ids`: level and id of each finding
 */
async function diagnose(
  env: Record<string, string>,
  args: string[] = [],
  options: DoctorOptions = {}
): Promise<{ code: number; findings: Finding[]; ids: string[] }> {
  const { code, lines } = await runCommand(
    (commandLine) =>
      runDoctor(commandLine, { defaultNodes: {}, addresses: [], usedPercent: () => Promise.resolve(50), ...options }),
    [...args, '--json'],
    { ...VALID_ENV, ...env }
  )
  const { findings } = JSON.parse(lines.join('')) as { findings: Finding[] }
  return { code, findings, ids: findings.map(({ id, level }) => `${level} ${id}`) }
}

describe('the command doctor', () => {
  it('finds nothing in a valid environment, and exits with 0', async () => {
    expect(await diagnose({})).toMatchObject({ code: 0, findings: [] })
    const SERVICE_URL = 'https://auth.example.com'
    expect(await diagnose({ SERVICE_URL, TRUST_PROXY: '1' })).toMatchObject({ code: 0, findings: [] })
  })

  it('names each invalid variable that prevents a start, and the line to change', async () => {
    const { code, findings } = await diagnose({ AUTH_PORT: 'x', LOG_LEVEL: 'loud', PRIVATE_KEY: 'ab'.repeat(40) })
    expect(code).toBe(1)
    expect(findings.map(({ what, change }) => [what, change])).toEqual([
      [expect.stringContaining('AUTH_PORT: received "x"'), 'AUTH_PORT=… (give a port, 0 to 65535)'],
      [expect.stringContaining('PRIVATE_KEY: received (not shown)'), expect.stringMatching(/^PRIVATE_KEY=… /)],
      [expect.stringContaining('LOG_LEVEL: received "loud"'), expect.stringMatching(/^LOG_LEVEL=… /)]
    ])
  })

  it.each<[string, Record<string, string>, string[]]>([
    [
      'a key of a development chain',
      { PRIVATE_KEY: '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80' },
      ['change weak-key']
    ],
    ['a key of one byte', { PRIVATE_KEY: '01'.repeat(32) }, ['change weak-key']],
    ['the same secret as PRIVATE_KEY and CHALLENGE_SECRET', { CHALLENGE_SECRET: KEY }, ['change one-secret']],
    [
      'more login domains than a server accepts',
      { SERVICE_URL: 'http://localhost:3000', LOGIN_DOMAINS: 'a,b,c,d,e' },
      ['change login-domains']
    ],
    ['a secret of words', { CHALLENGE_SECRET: 'my very long challenge secret of the company' }, ['change weak-secret']],
    [
      'a server that listens on all addresses without SERVICE_URL',
      { HOST: '0.0.0.0' },
      ['change service-url', 'change service-url', 'change service-url']
    ],
    ['http on a public host', { SERVICE_URL: 'http://auth.example.com' }, ['change http']],
    [
      'cookies over http',
      { SERVICE_URL: 'http://auth.example.com', USE_COOKIES: 'true' },
      ['change cookies-over-http']
    ],
    ['cookies on this machine', { SERVICE_URL: 'http://localhost:3000', USE_COOKIES: 'true' }, []],
    ['https without trust in the proxy', { SERVICE_URL: 'https://auth.example.com' }, ['change trust-proxy']],
    ['trust in every proxy', { SERVICE_URL: 'https://auth.example.com', TRUST_PROXY: 'true' }, ['note trust-proxy']],
    ['a URL without scheme', { SERVICE_URL: 'auth.example.com' }, ['change service-url']],
    ['a URL whose host looks like a scheme', { SERVICE_URL: 'localhost:3000' }, ['change service-url']],
    ['a misspelt variable', { SERVICE_ULR: 'https://auth.example.com' }, ['change misspelt-variable']],
    [
      'the demo page in production',
      { SERVICE_URL: 'https://auth.example.com', TRUST_PROXY: '1', PAGE: 'true' },
      ['note demo-page']
    ],
    ['machines of any DID', { MACHINE_LOGIN: 'true' }, ['note machine-dids']],
    ['machines that may not log in', { MACHINE_DIDS: 'did:key:zDn' }, ['note machine-dids']],
    ['machines of one DID', { MACHINE_LOGIN: 'true', MACHINE_DIDS: 'did:key:zDn' }, []],
    ['the demo page on this machine', { SERVICE_URL: 'http://localhost:3000', PAGE: 'true' }, []],
    [
      'an invalid variable together with other faults',
      { PORT: 'x', CHALLENGE_SECRET: 'a'.repeat(64), SERVICE_URL: 'auth.example.com', S3_BUCKET: 'b' },
      // PORT, S3_BUCKET, and the three other variables that a bucket needs.
      [...Array.from({ length: 5 }, () => 'change invalid-variable'), 'change weak-secret', 'change service-url']
    ]
  ])('reports the findings for %s', async (_what, env, expected) => {
    const { code, ids } = await diagnose(env)
    expect(ids).toEqual(expected)
    expect(code).toBe(expected.some((id) => id.startsWith('change')) ? 1 : 0)
  })

  it('names the scheme that a SERVICE_URL lacks', async () => {
    const findRemedies = async (env: Record<string, string>) =>
      (await diagnose(env)).findings.map(({ change }) => change)
    expect(await findRemedies({ SERVICE_URL: 'localhost:3000' })).toEqual(['SERVICE_URL=http://localhost:3000'])
    expect(await findRemedies({ VAULT_SERVICE_URL: 'vault.example' })).toEqual([
      'VAULT_SERVICE_URL=https://vault.example'
    ])
  })

  it('finds settings that block requests or logins of pages of another origin', async () => {
    const ownService = { SERVICE_URL: 'https://auth.example.com', TRUST_PROXY: '1' }
    const app = 'https://app.example.com'
    const bothOrigins = { TRUSTED_ORIGINS: app, CORS_ORIGINS: app }
    const examinePages = async (env: Record<string, string>) => (await diagnose({ ...ownService, ...env })).ids
    expect(await examinePages({ ...bothOrigins, LOGIN_DOMAINS: 'app.example.com' })).toEqual([])
    expect(await examinePages(bothOrigins)).toEqual(['note login-domains'])
    expect(await examinePages({ TRUSTED_ORIGINS: app })).toEqual(['note cors-origins', 'note login-domains'])
    expect(await examinePages({ CORS_ORIGINS: app, USE_COOKIES: 'true' })).toEqual([
      'change trusted-origins',
      'note siwe-domain',
      'note login-domains'
    ])
    expect(await examinePages({ CORS_ORIGINS: app, SIWE: 'false' })).toEqual(['note login-domains'])
    expect(await examinePages({ CORS_ORIGINS: app, LOGIN_DOMAINS: 'app.example.com' })).toEqual([])
    const otherSite = {
      CORS_ORIGINS: 'https://app.other.com',
      LOGIN_DOMAINS: 'app.other.com',
      TRUSTED_ORIGINS: 'https://app.other.com'
    }
    expect(await examinePages({ ...otherSite, USE_COOKIES: 'true' })).toEqual(['change same-site'])
  })

  it('finds RPC nodes of a wrong chain, and unavailable ones; an unavailable default node is only a note', async () => {
    // 0x1e is 30, the chain id of rsk.
    const url = await serving(answeringResults(() => ({ result: '0x1e' })))
    expect((await diagnose({ RPC_URL: url })).ids).toEqual([])
    expect((await diagnose({ RPC_URL: url, NETWORK_NAME: '0x1e' })).ids).toEqual([])
    expect((await diagnose({ RPC_URL: url, NETWORK_NAME: 'rsk:testnet' })).ids).toEqual(['change rpc-chain'])
    expect((await diagnose({ RPC_URL: url, NETWORK_NAME: 'unknown' })).ids).toEqual(['note rpc-chain'])
    const brokenNode = await serving((req) => req.socket.destroy())
    const { findings, ids } = await diagnose({ RPC_URL: `${brokenNode}/customer-key` })
    expect(ids).toEqual(['change rpc-unavailable'])
    expect(JSON.stringify(findings)).not.toContain('customer-key')
    expect(await diagnose({}, [], { defaultNodes: { rsk: brokenNode } })).toMatchObject({
      code: 0,
      ids: ['note rpc-unavailable']
    })
  })

  it('finds an unavailable database and Redis, also if other variables are missing', async () => {
    const closedUrl = await serving(() => undefined)
    closeServices()
    const address = `user:customer-key@${new URL(closedUrl).host}`
    const { code, findings, ids } = await diagnose({
      DATABASE_URL: `postgres://${address}/did_auth`,
      REDIS_URL: `redis://${address}`,
      PRIVATE_KEY: ''
    })
    expect([code, ids.sort()]).toEqual([
      1,
      // PRIVATE_KEY, and SERVICE_URL of each of the three servers.
      ['change database', ...Array.from({ length: 4 }, () => 'change invalid-variable'), 'change redis']
    ])
    expect(findings.filter(({ id }) => /database|redis/.test(id)).map(({ what }) => what)).toEqual([
      expect.stringMatching(/^Cannot use the database \(DATABASE_URL\): \S/),
      expect.stringMatching(/^Cannot use Redis \(REDIS_URL\): \S/)
    ])
    expect(JSON.stringify(findings)).not.toContain('customer-key')
  })

  it('finds a DATA_DIR that cannot be written to, and one whose disk is nearly full', async () => {
    const file = join(folder.path, 'file')
    writeFileSync(file, '')
    const { findings } = await diagnose({ DATA_DIR: file })
    expect(findings).toMatchObject([
      {
        id: 'data-dir',
        level: 'change',
        what: `The server cannot write to ${file}: a file with this name exists already`
      }
    ])
    const below = join(file, 'data')
    expect((await diagnose({ DATA_DIR: below })).findings).toMatchObject([
      { id: 'data-dir', what: `The server cannot write to ${below}: a part of its path is a file` }
    ])
    expect((await diagnose({ DATA_DIR: join(folder.path, 'new', 'data') })).ids).toEqual([])
    const full = await diagnose({}, [], { usedPercent: () => Promise.resolve(90) })
    const remedy = expect.stringContaining('free space on that disk, or DATA_DIR=')
    expect(full).toMatchObject({ code: 1, findings: [{ id: 'disk-full', level: 'change', change: remedy }] })
    expect(full.findings[0]?.what).toBe(`The disk of ${folder.path} (DATA_DIR) is 90 % full`)
    expect(readdirSync(folder.path)).toEqual(['file'])
  })

  it('finds a SERVICE_DID that does not match the key in PRIVATE_KEY or in a file in DATA_DIR', async () => {
    const ownDid = (await didOfPrivateKey(KEY)).replace('rsk:', '')
    const SERVICE_DID = `did:ethr:rsk:0x${'1'.repeat(40)}`
    expect((await diagnose({ SERVICE_DID: ownDid })).ids).toEqual([])
    expect((await diagnose({ SERVICE_DID: 'did:web:auth.example' })).ids).toEqual([])
    const expectedFinding = {
      id: 'service-did',
      level: 'change',
      change: 'remove SERVICE_DID, so that the DID is derived from PRIVATE_KEY'
    }
    expect((await diagnose({ SERVICE_DID })).findings).toMatchObject([expectedFinding])
    const data = temporaryFolder()
    afterTest(() => data.remove())
    writeFileSync(join(data.path, 'private-key'), KEY)
    const withKeyFile = await diagnose({
      DATA_DIR: data.path,
      PRIVATE_KEY: '',
      SERVICE_DID: SERVICE_DID.replace('rsk:', '')
    })
    expect(withKeyFile.findings).toMatchObject([{ id: 'service-did', change: `SERVICE_DID=${ownDid}` }])
  })

  it('finds a TRUSTED_ISSUER that returns no keys, unless it is auth in the same process', async () => {
    const deadUrl = await deadRpcUrl()
    const reason = `${deadUrl} (TRUSTED_ISSUER) returns no keys: the connection was refused`
    const vaultRun = await diagnose({ TRUSTED_ISSUER: deadUrl }, ['--server', 'vault'])
    expect(vaultRun).toMatchObject({ code: 1, findings: [{ id: 'issuer', level: 'change', what: reason }] })
    expect((await diagnose({ TRUSTED_ISSUER: deadUrl, AUTH_SERVICE_URL: deadUrl })).ids).toEqual([])
    const issuer = await startIssuer({ endedSessions: true })
    expect((await diagnose({ TRUSTED_ISSUER: issuer.url }, ['--server', 'relay'])).ids).toEqual([])
  })

  it('notes a TRUSTED_ISSUER whose discovery names no list of ended sessions, or that has no discovery', async () => {
    const what = 'publishes no list of ended sessions'
    for (const config of [{ discovery: true }, {}]) {
      const TRUSTED_ISSUER = (await startIssuer(config)).url
      const noted = await diagnose({ TRUSTED_ISSUER }, ['--server', 'vault'])
      expect(noted).toMatchObject({ code: 0, ids: ['note issuer-list'] })
      const effect = 'its tokens are accepted until they expire, also after a logout'
      expect(noted.findings[0]?.what).toBe(`${TRUSTED_ISSUER} (TRUSTED_ISSUER) ${what}: ${effect}`)
      const refused = await diagnose({ TRUSTED_ISSUER, ENDED_SESSIONS_WHEN_STALE: 'refuse' }, ['--server', 'vault'])
      expect(refused).toMatchObject({ code: 1, ids: ['change issuer-list'] })
    }
  })

  it('finds an IPFS node whose RPC port other machines can reach', async () => {
    const node = await serving((_req, res) => res.end('{"Version":"0.30.0"}'))
    const env = { IPFS_API_URL: node.replace('127.0.0.1', 'localhost') }
    expect((await diagnose(env, [], { addresses: [] })).ids).toEqual([])
    expect((await diagnose(env, [], { addresses: ['127.0.0.1'] })).ids).toEqual(['change ipfs-open'])
    expect((await diagnose(env, ['--server', 'auth'], { addresses: ['127.0.0.1'] })).ids).toEqual([])
  })

  it('prints problem, reason and line to change, in colour on a terminal unless NO_COLOR is set', async () => {
    const print = async (isTerminal: boolean, env = {}) => {
      const lines: string[] = []
      const completeEnv = { ...VALID_ENV, SERVICE_URL: 'https://auth.example.com', ...env }
      const commandLine = { args: [], env: completeEnv, out: (line: string) => lines.push(line), isTerminal }
      await runDoctor(commandLine, { defaultNodes: {}, usedPercent: () => Promise.resolve(50) })
      return lines.join('\n')
    }
    const plain = await print(false)
    expect(plain).toBe(
      [
        'CHANGE  https://auth.example.com is https, so the server is behind a proxy, but TRUST_PROXY is off (trust-proxy)',
        '        The server sees only the address of the proxy, so all users share one rate limit.',
        '        > TRUST_PROXY=1',
        '',
        '1 problem has to be fixed.'
      ].join('\n')
    )
    expect(await print(true, { NO_COLOR: '1' })).toBe(plain)
    expect(await print(true)).toContain('\u001B[31mCHANGE\u001B[0m')
  })
})

describe('isWeak', () => {
  it.each([
    'a'.repeat(64),
    'changeme-changeme-changeme-changeme',
    '0123456789'.repeat(4),
    'this is the secret of our company'
  ])('returns true for %s', (secret) => expect(isWeak(secret)).toBe(true))

  it.each([SECRET, 'q7v+9Zr2mLk0Yx4NfWbT8sJcUe1HdGpA'])('returns false for the random secret %s', (secret) =>
    expect(isWeak(secret)).toBe(false)
  )
})
