import { describe, expect, it } from '@jest/globals'
import { writeFileSync } from 'node:fs'
import {
  readValidEnv,
  findMisspellings,
  readEnv,
  readEnvs,
  findUnusedVariables
} from '../../../servers/config/read-env.js'
import { StartError } from '../../../servers/config/startup-error.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'

/** Returns the error message for an invalid environment. */
function readRefusal(env: Record<string, string>, isOneOfAll = false): string {
  try {
    readEnv(env, 'auth', isOneOfAll)
  } catch (error) {
    expect(error).toBeInstanceOf(StartError)
    return (error as StartError).message
  }
  throw new Error('accepted')
}

describe('readEnv', () => {
  it('fills in the defaults of an empty environment, except those of the library', () =>
    expect(readEnv({}, 'auth', false)).toEqual({
      name: 'auth',
      address: { port: 3000, host: '127.0.0.1', variable: 'PORT' },
      HOST: '127.0.0.1',
      DATA_DIR: './data',
      TRUSTED_ORIGINS: [],
      CORS_ORIGINS: [],
      TRUST_PROXY: false,
      LOG_LEVEL: 'info',
      MAX_CONNECTIONS: 4_096,
      DRAIN_SECONDS: 0,
      ENDED_SESSIONS: true,
      ENDED_SESSIONS_WHEN_STALE: 'accept',
      METRICS_HOST: '127.0.0.1',
      PAGE: true,
      RESOURCES: [],
      MACHINE_LOGIN: false,
      DATABASE_POOL_SIZE: 10,
      DATABASE_PREPARE: true,
      DATABASE_MIGRATE: true,
      S3_REGION: 'us-east-1',
      S3_FORCE_PATH_STYLE: true,
      IPFS_ALLOW_INSECURE: false,
      RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS: 600,
      RELAY_MAX_FILE_BYTES: 8_388_608,
      RELAY_MAX_MEMORY_BYTES: 67_108_864,
      RELAY_MAX_BYTES_PER_DID: 67_108_864,
      RELAY_FILE_TTL_SECONDS: 604_800,
      RELAY_MAX_STORE_BYTES: 8_589_934_592,
      RELAY_OPEN_READS: false,
      VAULT_MAX_CONTENT_BYTES: 1_048_576,
      VAULT_MAX_BYTES_PER_DID: 67_108_864,
      VAULT_MAX_ENTRIES_PER_DID: 10_000
    }))

  it('treats an empty variable as absent', () =>
    expect(
      readEnv({ PORT: '', RPC_URL: '', USE_COOKIES: '', PRIVATE_KEY: '', PRIVATE_KEY_FILE: '' }, 'auth', false)
    ).toEqual(readEnv({}, 'auth', false)))

  it.each<[name: string, text: string, value?: unknown]>([
    ['PORT', '0', 0],
    ['SERVICE_URL', 'https://auth.example'],
    ['PRIVATE_KEY', `0x${'ab'.repeat(32)}`, [`0x${'ab'.repeat(32)}`]],
    ['PRIVATE_KEY', `${'ab'.repeat(32)}, ${'cd'.repeat(32)}`, ['ab'.repeat(32), 'cd'.repeat(32)]],
    ['RESOURCE_KEY', `${'ab'.repeat(32)}\n${'cd'.repeat(32)}`, ['ab'.repeat(32), 'cd'.repeat(32)]],
    ['CHALLENGE_SECRET', 'ä'.repeat(16)],
    ['SERVICE_DID', 'did:web:auth.example'],
    ['NETWORK_NAME', 'rsk:testnet'],
    ['RPC_URL', 'http://localhost:4444'],
    ['REGISTRY', `0x${'a'.repeat(40)}`],
    ['DATABASE_URL', 'postgres://did_auth:secret@db.example:5432/did_auth'],
    ['REDIS_URL', 'rediss://a.example:6379,b.example:6379'],
    ['USE_COOKIES', 'true', true],
    ['TRUSTED_ORIGINS', 'https://a.example, https://b.example:8443', ['https://a.example', 'https://b.example:8443']],
    ['TRUST_PROXY', 'off', false],
    ['TRUST_PROXY', 'false', false],
    ['TRUST_PROXY', 'true', true],
    ['TRUST_PROXY', '0', 0],
    ['TRUST_PROXY', '2', 2],
    ['TRUST_PROXY', 'loopback', ['loopback']],
    ['TRUST_PROXY', '10.0.0.0/8, ::1, uniquelocal', ['10.0.0.0/8', '::1', 'uniquelocal']],
    ['LOG_LEVEL', 'silent'],
    ['LOG_FORMAT', 'pretty'],
    ['REPLAY_PROTECTION', 'window'],
    ['REFRESH_REUSE_GRACE_SECONDS', '0', 0],
    ['LOGIN_DOMAINS', 'app.example, https://app.example', ['app.example', 'https://app.example']],
    ['LOGIN_DIALECTS', 'login, url', ['login', 'url']],
    ['NETWORKS', 'rsk, ethereum, 0x89', ['rsk', '', '0x89']],
    ['NETWORKS', 'Ethereum', ['']],
    [
      'RESOURCE_KEY',
      `${'ab'.repeat(32)}\n${'AB'.repeat(32)}\r\n${'cd'.repeat(32)}`,
      ['ab'.repeat(32), 'cd'.repeat(32)]
    ],
    ['MACHINE_DIDS', 'did:key:zDn,did:jwk:ey', ['did:key:zDn', 'did:jwk:ey']],
    ['RESOURCES', 'https://a.example, http://localhost:3002', ['https://a.example', 'http://localhost:3002']],
    ['RESOURCE_KEY', `${'ab'.repeat(32)}, ${'cd'.repeat(32)}`, ['ab'.repeat(32), 'cd'.repeat(32)]],
    ['ENDED_SESSIONS', 'false', false],
    ['ENDED_SESSIONS_WHEN_STALE', 'refuse'],
    ['TRUSTED_ISSUER', 'https://auth.example'],
    ['COOKIE_PREFIX', '__Host-'],
    ['ABSOLUTE_SESSION_DURATION_IN_HOURS', '720.5', 720.5],
    ['ERROR_FORMAT', 'problem'],
    ['IPFS_API_URL', 'https://ipfs.example:5001'],
    ['RELAY_MAX_FILE_BYTES', '2', 2]
  ])('reads %s=%s', (name, text, value = text) =>
    expect(readEnv({ [name]: text }, 'auth', false, 'operate')).toMatchObject({ [name]: value })
  )

  it('reads the variables of a bucket', () => {
    const env = {
      S3_ENDPOINT: 'https://s3.example',
      S3_BUCKET: 'did-auth',
      S3_REGION: 'eu-central-1',
      S3_ACCESS_KEY_ID: 'key',
      S3_SECRET_ACCESS_KEY: 'secret'
    }
    expect(readEnv({ ...env, S3_FORCE_PATH_STYLE: 'false' }, 'auth', false)).toMatchObject({
      ...env,
      S3_FORCE_PATH_STYLE: false
    })
  })

  it('requires a shared identity from instances that share a database', () => {
    const env = { DATABASE_URL: 'postgres://db.example/did_auth', CHALLENGE_SECRET: 'a'.repeat(32) }
    expect(readRefusal(env, true).split('\n').slice(1)).toEqual([
      '  - PRIVATE_KEY: missing; with DATABASE_URL, every instance needs the same value',
      '  - AUTH_SERVICE_URL: missing; with DATABASE_URL, every instance needs the same value'
    ])
    expect(readRefusal({ ...env, RESOURCES: 'https://a.example' }, true)).toContain('\n  - RESOURCE_KEY: missing; with')
    expect(readEnv(env, 'auth', false, 'operate').DATABASE_URL).toBe(env.DATABASE_URL)
  })

  it.each([
    ['S3_ENDPOINT', 'ftp://s3.example'],
    ['S3_ENDPOINT', 'https://user:password@s3.example'],
    ['S3_ENDPOINT', 'https://s3.example/?key=1'],
    ['S3_BUCKET', 'Content'],
    ['S3_BUCKET', 'a/b'],
    ['S3_REGION', 'eu central'],
    ['S3_ACCESS_KEY_ID', 'a key'],
    [
      'RESOURCES',
      'http://a.example',
      '"http://a.example"; give at most 48 URLs separated by commas, https or on this machine'
    ],
    ['NETWORK_NAME', 'mainnet', '"mainnet"; give ethereum for the main network of Ethereum'],
    ['NETWORKS', 'rsk,Mainnet', '"rsk,Mainnet"; give ethereum for the main network of Ethereum'],
    ['RESOURCE_KEY', 'ab'.repeat(31), '(not shown); give private keys of P-256, 64 hex digits each'],
    ['MACHINE_DIDS', 'did:key:z6Mk, z6Mk', '"did:key:z6Mk, z6Mk"; give DIDs separated by commas'],
    ['ENDED_SESSIONS_WHEN_STALE', 'ignore', '"ignore"; give accept or refuse'],
    ['TRUSTED_ISSUER', 'auth.example', '"auth.example"; give the SERVICE_URL of an auth server, https or on'],
    ...['0.0.0.0/0', '::/0', 'yes', '-1', '10.0.0.0/33', '10.0.0.0/8/8', '::1/129', 'proxy.example', '10.0.0'].map(
      (value) => ['TRUST_PROXY', value] as const
    )
  ])('refuses %s=%s', (name, value, problem = '') => {
    expect(readRefusal({ [name]: value })).toContain(`${name}: received ${problem}`)
    expect(readRefusal({ [name]: value })).not.toContain('password')
  })

  it('names the missing variables of a bucket', () => {
    expect(readRefusal({ S3_ENDPOINT: 'https://s3.example', S3_BUCKET: 'b-1' }).split('\n').slice(1)).toEqual([
      '  - S3_ACCESS_KEY_ID: missing; it is required together with S3_ENDPOINT, S3_BUCKET',
      '  - S3_SECRET_ACCESS_KEY: missing; it is required together with S3_ENDPOINT, S3_BUCKET'
    ])
  })

  it.each(['http://127.0.0.1:5001', 'http://localhost:5001', 'http://[::1]:5001', 'https://ipfs.example'])(
    'accepts IPFS_API_URL=%s, which is https or on this machine',
    (IPFS_API_URL) => expect(readEnv({ IPFS_API_URL }, 'vault', false).IPFS_API_URL).toBe(IPFS_API_URL)
  )

  it.each(['http://ipfs.example', 'http://10.0.0.1:5001', 'http://127.example:5001', 'http://localhost.example'])(
    'refuses IPFS_API_URL=%s unless IPFS_ALLOW_INSECURE is set',
    (IPFS_API_URL) => {
      expect(readRefusal({ IPFS_API_URL })).toContain('IPFS_API_URL: neither https nor on this machine')
      expect(readRefusal({ IPFS_API_URL })).not.toContain(IPFS_API_URL)
      expect(readEnv({ IPFS_API_URL, IPFS_ALLOW_INSECURE: 'true' }, 'auth', false).IPFS_API_URL).toBe(IPFS_API_URL)
    }
  )

  it.each(['http://user:50%off@127.0.0.1:5001', 'https://%zz@ipfs.example'])(
    'refuses the badly encoded credentials of %s without showing them',
    (IPFS_API_URL) => {
      expect(readRefusal({ IPFS_API_URL })).toContain(
        'IPFS_API_URL: received (not shown); write % in the user or password of the URL as %25'
      )
      expect(readEnv({ IPFS_API_URL: IPFS_API_URL.replace('%', '%25') }, 'vault', false).IPFS_API_URL).toContain('%25')
    }
  )

  it.each(['TIME_SLOT_IN_SECONDS', 'CHALLENGE_EXPIRATION_TIME_IN_SECONDS', 'REFRESH_REUSE_GRACE_SECONDS'])(
    'accepts at most 1000000000 seconds as %s',
    (name) => {
      expect(readEnv({ [name]: '1000000000' }, 'auth', false)).toMatchObject({ [name]: 1_000_000_000 })
      expect(readRefusal({ [name]: '1000000001' })).toContain(
        `${name}: received "1000000001"; give a number of seconds`
      )
    }
  )

  it('accepts origins of apps as CORS_ORIGINS only', () => {
    const text = 'https://app.example, tauri://localhost,capacitor://localhost'
    expect(readRefusal({ TRUSTED_ORIGINS: text, CORS_ORIGINS: `${text},null` }).split('\n')).toEqual([
      'Invalid environment variables:',
      `  - TRUSTED_ORIGINS: received "${text}"; give http(s) origins only, and those of apps as CORS_ORIGINS`,
      `  - CORS_ORIGINS: received "${text},null"; give origins separated by commas, such as https://app.example`
    ])
    const { CORS_ORIGINS } = readEnv({ CORS_ORIGINS: text }, 'auth', false)
    expect(CORS_ORIGINS).toEqual(['https://app.example', 'tauri://localhost', 'capacitor://localhost'])
  })

  it('names all invalid variables in one message', () => {
    const message = readRefusal({
      PORT: '65536',
      SERVICE_URL: 'a b',
      SERVICE_DID: 'did:',
      USE_COOKIES: 'yes',
      CORS_ORIGINS: 'https://a.example/path',
      LOG_LEVEL: 'loud',
      MAX_REQUESTS_PER_TIME_SLOT: '0',
      USER_SESSION_DURATION_IN_HOURS: '1e3',
      LOG_FORMAT: 'xml',
      MAX_CONNECTIONS: '0',
      DRAIN_SECONDS: '-1',
      LOGIN_DOMAINS: 'app example',
      LOGIN_DIALECTS: 'siwe',
      NETWORKS: ',',
      COOKIE_PREFIX: 'app-',
      ABSOLUTE_SESSION_DURATION_IN_HOURS: '0',
      ERROR_FORMAT: 'json'
    })
    expect(message.split('\n')).toEqual([
      'Invalid environment variables:',
      '  - PORT: received "65536"; give a port, 0 to 65535',
      '  - SERVICE_URL: received "a b"; give a URL of printable ASCII without space',
      '  - SERVICE_DID: received "did:"; give a DID, such as did:ethr:rsk:0x… (40 hex digits)',
      '  - USE_COOKIES: received "yes"; give true or false',
      '  - CORS_ORIGINS: received "https://a.example/path"; give origins separated by commas, such as https://app.example',
      '  - LOG_LEVEL: received "loud"; give debug, info, warn, error or silent',
      '  - LOG_FORMAT: received "xml"; give pretty or json',
      '  - MAX_CONNECTIONS: received "0"; give a number of connections, at least 1',
      '  - DRAIN_SECONDS: received "-1"; give a number of seconds, 0 to 1000000000',
      '  - LOGIN_DOMAINS: received "app example"; give domains of printable ASCII separated by commas, such as app.example',
      '  - LOGIN_DIALECTS: received "siwe"; give login, url, or login,url',
      '  - NETWORKS: received ","; give networks separated by commas, such as rsk,ethereum (ethereum: DIDs without a network)',
      '  - COOKIE_PREFIX: received "app-"; give __Host- or __Secure-',
      '  - ABSOLUTE_SESSION_DURATION_IN_HOURS: received "0"; give a number of hours above 0',
      '  - ERROR_FORMAT: received "json"; give text or problem',
      '  - MAX_REQUESTS_PER_TIME_SLOT: received "0"; give a number of requests, at least 1',
      '  - USER_SESSION_DURATION_IN_HOURS: received "1e3"; give a number of hours above 0'
    ])
  })

  it('names an insecure address of a node in addition to other problems', () => {
    const message = readRefusal({ PORT: 'x', IPFS_API_URL: 'http://10.0.0.1:5001' })
    expect(message.split('\n').slice(1)).toEqual([
      '  - PORT: received "x"; give a port, 0 to 65535',
      '  - IPFS_API_URL: neither https nor on this machine; give such a URL, or set IPFS_ALLOW_INSECURE=true'
    ])
    const allowed = { PORT: 'x', IPFS_API_URL: 'http://10.0.0.1:5001', IPFS_ALLOW_INSECURE: 'true' }
    expect(readRefusal(allowed)).not.toContain('IPFS')
  })

  it.each([
    ['PRIVATE_KEY', 'ab'.repeat(31)],
    ['PRIVATE_KEY', '0'.repeat(64)],
    ['PRIVATE_KEY', `${'ab'.repeat(32)},${'ab'.repeat(31)}`],
    ['PRIVATE_KEY', ' , '],
    ['PRIVATE_KEY', 'f'.repeat(64)],
    ['CHALLENGE_SECRET', 'thirty-one bytes are not enough'],
    ['RPC_URL', 'node.example/key-of-a-customer'],
    ['DATABASE_URL', 'mysql://user:password@db.example/x'],
    ['REDIS_URL', 'redis://user:password@a.example, b.example']
  ])('does not show an invalid %s', (name, value) => {
    const message = readRefusal({ [name]: value })
    expect(message).toContain(`${name}: received (not shown); `)
    expect(message).not.toContain(value)
  })

  it('does not show a private key in the wrong variable', () => {
    const key = 'ab'.repeat(32)
    const message = readRefusal({
      SERVICE_DID: key,
      PORT: `0x${key}`,
      PRIVATE_KEY_FILE: key,
      CHALLENGE_SECRET_FILE: key
    })
    expect(message.split('\n')).toHaveLength(5)
    expect(message).not.toContain(key)
  })

  it('reads port and URL of one server of `all` from its own variables', () => {
    const env = {
      AUTH_PORT: '8000',
      AUTH_SERVICE_URL: 'https://auth.example',
      PORT: '1',
      SERVICE_URL: 'https://x.example'
    }
    expect(readEnv(env, 'auth', true)).toMatchObject({
      address: { port: 8000, variable: 'AUTH_PORT' },
      SERVICE_URL: 'https://auth.example'
    })
    expect(readRefusal({ AUTH_PORT: 'x' }, true)).toContain('AUTH_PORT: received "x"')
  })
})

describe('readValidEnv', () =>
  it('ignores an invalid variable as if it were absent, and returns the problems', () => {
    const { env, problems } = readValidEnv({ PORT: 'x', LOG_LEVEL: 'debug', S3_BUCKET: 'b' }, 'auth', false)
    expect(env).toMatchObject({ LOG_LEVEL: 'debug', address: { port: 3000, variable: 'PORT' } })
    expect(problems.map((problem) => problem.split(':')[0])).toEqual([
      'PORT',
      'S3_BUCKET',
      'S3_ENDPOINT',
      'S3_ACCESS_KEY_ID',
      'S3_SECRET_ACCESS_KEY'
    ])
  }))

describe('readEnvs', () => {
  it('names the problems of all servers in one message, each once', () => {
    const env = { AUTH_PORT: 'x', RELAY_PORT: 'y', VAULT_PORT: 'z', RELAY_MAX_FILE_BYTES: '0' }
    const lines = [
      'Invalid environment variables:',
      'AUTH_PORT: received "x"; give a port, 0 to 65535',
      'RELAY_MAX_FILE_BYTES: received "0"; give a number of bytes, at least 1',
      'RELAY_PORT: received "y"; give a port, 0 to 65535',
      'VAULT_PORT: received "z"; give a port, 0 to 65535'
    ]
    expect(() => readEnvs(env, ['auth', 'relay', 'vault'], true)).toThrow(new StartError(lines.join('\n  - ')))
  })

  it('names a problem of only one server', () =>
    expect(() => readEnvs({ VAULT_PORT: 'z' }, ['auth', 'vault'], true)).toThrow(
      new StartError('Invalid environment variables:\n  - VAULT_PORT: received "z"; give a port, 0 to 65535')
    ))
})

describe('findUnusedVariables', () => {
  it('names the variables that `all` does not read', () => {
    const env = { PORT: '1', SERVICE_URL: '', AUTH_PORT: '2' }
    expect(findUnusedVariables(env, ['auth', 'relay', 'vault'], true)).toEqual(['PORT'])
  })

  it('names the variables that only `all` reads', () => {
    const env = { PORT: '1', AUTH_PORT: '2', AUTH_SERVICE_URL: 'https://auth.example', RELAY_PORT: '3' }
    expect(findUnusedVariables(env, ['auth'], false)).toEqual(['AUTH_PORT', 'AUTH_SERVICE_URL'])
    expect(findUnusedVariables({ PORT: '1' }, ['auth'], false)).toEqual([])
  })
})

describe('variables <NAME>_FILE', () => {
  const folder = folderOfEachTest()

  it('name the file of a secret, which is read without its final line feed', () => {
    const file = `${folder.path}/secret`
    writeFileSync(file, `${'s'.repeat(40)}\n`)
    expect(readEnv({ CHALLENGE_SECRET_FILE: file }, 'auth', false).CHALLENGE_SECRET).toBe('s'.repeat(40))
  })

  it('are refused together with the plain variable, and if the file is unreadable or empty', () => {
    const file = `${folder.path}/empty`
    writeFileSync(file, '\n')
    const message = readRefusal({
      PRIVATE_KEY: 'ab'.repeat(32),
      PRIVATE_KEY_FILE: file,
      CHALLENGE_SECRET_FILE: file,
      RPC_URL_FILE: folder.path
    })
    expect(message.split('\n')).toEqual([
      'Invalid environment variables:',
      '  - PRIVATE_KEY: received together with PRIVATE_KEY_FILE; set only one of them',
      '  - CHALLENGE_SECRET_FILE: the file is empty',
      '  - RPC_URL_FILE: the file cannot be read'
    ])
  })
})

describe('findMisspellings', () => {
  it.each([
    ['SERVICE_ULR', 'SERVICE_URL'],
    ['SERVICE_UR', 'SERVICE_URL'],
    ['SERVICEE_URL', 'SERVICE_URL'],
    ['SERVICE_URI', 'SERVICE_URL'],
    ['ERVICE_URL', 'SERVICE_URL'],
    ['SERVICE_URLS', 'SERVICE_URL'],
    ['AUTH_SERVICE_ULR', 'AUTH_SERVICE_URL'],
    ['PRIVATE_KEY_FIL', 'PRIVATE_KEY_FILE'],
    ['PROT', 'PORT']
  ])('suggests for %s the variable %s', (variable, suggestion) =>
    expect(findMisspellings({ [variable]: 'a value' })).toEqual([{ variable, suggestion }])
  )

  it.each(['SERVICE_URL', 'VAULT_PORT', 'PAGER', 'POST', 'HOME', 'PATH', 'SERVICE_LRU_', 'SERVICE', ''])(
    'suggests nothing for %s',
    (variable) => expect(findMisspellings({ [variable]: 'a value' })).toEqual([])
  )

  it('ignores empty values', () => expect(findMisspellings({ SERVICE_ULR: '' })).toEqual([]))

  it('adds its suggestions to the message about an invalid environment, without values', () =>
    expect(readRefusal({ PORT: 'http', PRIVATE_KYE: 'secret' })).toMatch(
      /^Invalid environment variables:\n {2}- PORT: .*\n {2}- PRIVATE_KYE: unknown variable; did you mean PRIVATE_KEY\?$/
    ))
})
