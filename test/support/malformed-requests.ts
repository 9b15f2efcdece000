import { Buffer } from 'node:buffer'

/** One request that no well-behaved client sends, as the bytes on the wire. */
export interface MalformedRequest {
  name: string
  bytes: Buffer
}

/** What a good client holds: the requests are made of it, spoilt in one place each. */
export interface GoodParts {
  did: string
  /** Signature over another message: form and length are good. */
  sig: string
  accessToken: string
  refreshToken: string
  credentialJwt: string
}

const BODY_ROUTES = ['/request-auth', '/request-signup', '/auth', '/signup', '/refresh-token', '/logout']
const ROUTES = [...BODY_ROUTES, '/me']

/** JSON texts that stand where a string should. `1e999` and the lone surrogate have no JavaScript literal in JSON. */
export const WRONG_VALUES = [
  'null',
  'true',
  'false',
  '0',
  '-1',
  '1e999',
  '12345678901234567890123',
  '""',
  '" "',
  '"\\u0000"',
  '"\\ud800"',
  '"💥"',
  '"__proto__"',
  '"constructor"',
  '"<script>alert(1)</script>"',
  '"\\r\\nSet-Cookie: a=b"',
  '[]',
  '[null]',
  '[[[[]]]]',
  '["a","b"]',
  '{}',
  '{"__proto__":{"did":"did:web:a"}}',
  '{"toString":1,"valueOf":2,"length":3}',
  '{"did":"did:web:a","sig":"0x"}',
  `"${'a'.repeat(10_000)}"`,
  `${'['.repeat(2000)}${']'.repeat(2000)}`
]

/** Every field that a body may have, each with a function that puts a JSON text in its place. */
const FIELDS: [string, (good: GoodParts, value: string) => string][] = [
  ['did', (good, value) => `{"did":${value},"sig":"${good.sig}"}`],
  ['sig', (good, value) => `{"did":"${good.did}","sig":${value}}`],
  ['credentials', (good, value) => `{"did":"${good.did}","sig":"${good.sig}","credentials":${value}}`],
  ['credentials[0]', (good, value) => `{"did":"${good.did}","sig":"${good.sig}","credentials":[${value}]}`],
  ['claims', (good, value) => `{"did":"${good.did}","sig":"${good.sig}","claims":${value}}`],
  ['claims[0]', (good, value) => `{"did":"${good.did}","sig":"${good.sig}","claims":[${value}]}`],
  [
    'claims[0].claimValue',
    (good, value) => `{"did":"${good.did}","sig":"${good.sig}","claims":[{"claimType":"a","claimValue":${value}}]}`
  ],
  ['response', (_good, value) => `{"response":${value}}`],
  ['response.did', (good, value) => `{"response":{"did":${value},"sig":"${good.sig}"}}`],
  ['response.sig', (good, value) => `{"response":{"did":"${good.did}","sig":${value}}}`],
  ['refreshToken', (_good, value) => `{"refreshToken":${value}}`],
  ['__proto__', (good, value) => `{"__proto__":${value},"did":"${good.did}","sig":"${good.sig}"}`],
  ['the whole body', (_good, value) => value]
]

const ADDRESS = '7e5f4552091a69125d5dfcb7b8c2659029395bdf'

export const WRONG_DIDS = [
  'did',
  'did:',
  'did::',
  'did:ethr',
  'did:ethr:',
  'did:ethr:0x',
  `did:ethr:0x${ADDRESS.slice(1)}`,
  `did:ethr:0x${ADDRESS}0`,
  `did:ethr:0x${ADDRESS.replace('7', 'g')}`,
  `did:ethr:${ADDRESS}`,
  `did:ethr::0x${ADDRESS}`,
  `did:ethr:rsk:testnet:third:0x${ADDRESS}`,
  `did:ethr:0x1e0x${ADDRESS}`,
  `did:ethr:rsk:0x${ADDRESS}#controller`,
  `did:ethr:rsk:0x${ADDRESS}?a=b`,
  `did:ethr:rsk:0x${ADDRESS}/path`,
  `did:ethr:rsk:0x${ADDRESS} `,
  ` did:ethr:rsk:0x${ADDRESS}`,
  `did:ethr:rsk:0x${ADDRESS}\u0000`,
  `did:ethr:rsk:0x${ADDRESS}\u00e9`,
  `did:ethr:rsk:\uff10x${ADDRESS}`,
  `DID:ethr:rsk:0x${ADDRESS}`,
  `did:ETHR:rsk:0x${ADDRESS}`,
  `did:ethr:__proto__:0x${ADDRESS}`,
  `did:ethr:constructor:0x${ADDRESS}`,
  `did:ethr:0xffffffffffffffff:0x${ADDRESS}`,
  `did:ethr:rsk:0x${'0'.repeat(40)}`,
  'did:web:localhost%3A3000',
  'did:web:%',
  'did:example:../../etc/passwd',
  `did:example:${'a'.repeat(117)}`,
  `did:example:${'a'.repeat(8000)}`,
  `did:${':'.repeat(120)}`,
  "did:example:' OR 1=1 --",
  'did:example:%00'
]

const N = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'
const HALF_N_AND_ONE = '7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a1'
const ONE = '1'.padStart(64, '0')
const ZERO = '0'.repeat(64)

const WRONG_SIGNATURES = [
  '0x',
  '0X',
  `0x${'0'.repeat(130)}`,
  `0x${'f'.repeat(130)}`,
  `0x${ONE}${ONE}`,
  `0x${ONE}${ONE}1b1b`,
  `${ONE}${ONE}1b`,
  `0X${ONE}${ONE}1b`,
  `0x${ONE}${ONE}1B`,
  `0x${ZERO}${ONE}1b`,
  `0x${ONE}${ZERO}1b`,
  `0x${N}${ONE}1b`,
  `0x${ONE}${N}1b`,
  `0x${ONE}${HALF_N_AND_ONE}1b`,
  `0x${N.replace(/1$/, '0')}${ONE}1c`,
  `0x${ONE}${ONE}00`,
  `0x${ONE}${ONE}02`,
  `0x${ONE}${ONE}1a`,
  `0x${ONE}${ONE}1d`,
  `0x${ONE}${ONE}22`,
  `0x${ONE}${ONE}23`,
  `0x${ONE}${ONE}25`,
  `0x${ONE}${ONE}5f`,
  `0x${ONE}${ONE}ff`,
  ` 0x${ONE}${ONE}1b`,
  `0x${ONE}${ONE}1b\n`,
  `0x${ONE}${ONE.replace('1', 'g')}1b`,
  Buffer.alloc(65, 1).toString('base64'),
  `${ONE}.${ONE}`
]

/** The value as it is written in JSON. */
const quoted = (text: string): string => JSON.stringify(text)

const base64url = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

/** JWTs that are wrong in one place each. */
export function wrongJwts({ accessToken, refreshToken }: GoodParts): string[] {
  const [header = '', payload = '', signature = ''] = accessToken.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object
  const headers = [
    { alg: 'none' },
    { alg: 'HS256', typ: 'JWT' },
    { alg: 'ES256', typ: 'JWT' },
    { alg: 'ES256K-R', typ: 'JWT' },
    { alg: ['ES256K'] },
    { alg: 'ES256K', crit: ['a'] },
    { alg: 'ES256K', jwk: {} },
    { alg: 'ES256K', kid: '../../key' },
    null,
    [],
    7,
    'ES256K',
    '{',
    ''
  ]
  const payloads = [
    { ...claims, exp: 0 },
    { ...claims, exp: null },
    { ...claims, exp: '1' },
    { ...claims, sub: 'did:web:evil' },
    { ...claims, aud: [] },
    { ...claims, __proto__: null },
    {},
    null,
    [],
    'a',
    '{',
    ''
  ]
  return [
    ...headers.map((value) => `${base64url(value)}.${payload}.${signature}`),
    ...payloads.map((value) => `${header}.${base64url(value)}.${signature}`),
    '.',
    '..',
    '...',
    'a.b.c',
    `${header}.${payload}.`,
    `${header}.${payload}`,
    `${header}..${signature}`,
    `.${payload}.${signature}`,
    `${accessToken}.`,
    `.${accessToken}`,
    `${accessToken}=`,
    `${accessToken}A`,
    accessToken.slice(0, -1),
    accessToken.toUpperCase(),
    `${header}.${payload}.${Buffer.alloc(64).toString('base64url')}`,
    `${header}.${payload}.${Buffer.alloc(64, 255).toString('base64url')}`,
    `${header}.${payload}.${Buffer.alloc(65, 1).toString('base64url')}`,
    `${header}.${payload}.${'A'.repeat(10_000)}`,
    `${header}.${'A'.repeat(5000)}.${signature}`,
    refreshToken,
    'undefined',
    'null',
    '%00',
    '💥'
  ]
}

export const WRONG_AUTHORIZATIONS = [
  '',
  ' ',
  'DIDAuth',
  'DIDAuth ',
  'DIDAuth  ',
  'DIDAuth\tT',
  'DIDAuth T T',
  'DIDAuth T,T',
  'DIDAuth "T"',
  'DIDAuth token=T',
  'DIDAuth: T',
  'Bearer T',
  'Basic dXNlcjpwYXNz',
  'Digest username="a"',
  'T',
  '\u00e9 T',
  `DIDAuth ${'a'.repeat(12_000)}`,
  `${'DIDAuth '.repeat(1000)}T`
]

export const WRONG_COOKIES = [
  '',
  ';',
  '=',
  ';;;===',
  'authorization',
  'authorization=',
  'authorization=;authorization=',
  'authorization=T; authorization=T',
  'authorization=%',
  'authorization=%E0%A4%A',
  'authorization=j:{"a":1}',
  'authorization=j:null',
  'authorization=j:',
  'authorization=s:T.T',
  'authorization="T',
  'authorization=T; refresh-token=R; refresh-token=R',
  'refresh-token=',
  'refresh-token=j:["R"]',
  'refresh-token=R; refresh-token=R',
  '__proto__=1; constructor=2; authorization=T; hasOwnProperty=3',
  '\u00e9=\u00e9; authorization=\u00e9',
  `authorization=${'a'.repeat(12_000)}`,
  'a=b; '.repeat(2000)
]

const WRONG_PATHS = [
  '/request-auth/',
  '/request-auth/%',
  '/request-auth/%0',
  '/request-auth/%00',
  '/request-auth/%zz',
  '/request-auth/%E0%A4%A',
  '/request-auth/%ff%fe',
  '/request-auth/%2e%2e%2fetc%2fpasswd',
  '/request-auth/..%2f..',
  '/request-auth/../auth',
  '/request-auth/./did:web:a',
  '/request-auth//did:web:a',
  '//request-auth',
  '/request-auth/did:web:a/b',
  '/request-auth/did:web:a?did=did:web:b',
  '/request-auth/did:web:a;x=y',
  '/request-auth/:did',
  '/request-auth/*',
  '/request-auth/did:web:a%23b',
  '/request-auth/did:web:a%0d%0aSet-Cookie:a=b',
  `/request-auth/${'a'.repeat(8000)}`,
  `/request-auth/${'%61'.repeat(2000)}`,
  '/request-signup/%',
  '/request-signup/__proto__',
  '/request-signup/constructor',
  '/auth/%',
  '/auth?__proto__[did]=a',
  '/auth?did[]=a&did[b]=c',
  '/AUTH//',
  '/%61uth',
  '/auth%2f',
  '/me/%',
  '/me?a=%E0%A4%A',
  'http://evil.example/auth',
  'http://[::1/auth',
  '*',
  '/\u00e9'
]

/** Bodies that are no JSON, or are not what their headers say. */
export const WRONG_BODIES: [string, Record<string, string>, string | Buffer][] = [
  ['half an object', {}, '{"did":'],
  ['a stray comma', {}, '{"did":"a",}'],
  ['a byte order mark only', {}, Buffer.from([0xef, 0xbb, 0xbf])],
  ['bytes that are no UTF-8', {}, Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])],
  ['UTF-16', {}, Buffer.from('{"did":"did:web:a"}', 'utf16le')],
  ['UTF-32', {}, Buffer.from([0x7b, 0, 0, 0, 0x7d, 0, 0, 0])],
  ['bytes of zero', {}, Buffer.alloc(1000)],
  ['brackets without an end', {}, '['.repeat(16_000)],
  ['braces without an end', {}, '{"a":'.repeat(3000)],
  ['one byte too many', {}, `{"did":"${'a'.repeat(16_384 - 9)}"}`],
  ['far too much', {}, `{"did":"${'a'.repeat(700_000)}"}`],
  ['many names', {}, `{${Array.from({ length: 1500 }, (_, index) => `"${index}":1`).join(',')}}`],
  ['a name many times', {}, `{${Array<string>(1000).fill('"did":1').join(',')}}`],
  ['gzip that is none', { 'Content-Encoding': 'gzip' }, '{"did":"did:web:a"}'],
  ['an unknown encoding', { 'Content-Encoding': 'garbage' }, '{"did":"did:web:a"}'],
  ['an unknown charset', { 'Content-Type': 'application/json; charset=garbage' }, '{"did":"did:web:a"}'],
  ['a form', { 'Content-Type': 'application/x-www-form-urlencoded' }, 'did=did:web:a&sig[a]=b'],
  ['a multipart body without its boundary', { 'Content-Type': 'multipart/form-data' }, '--a\r\n\r\n--a--'],
  ['a text', { 'Content-Type': 'text/plain' }, 'hello'],
  ['an empty type', { 'Content-Type': '' }, '{"did":"did:web:a"}'],
  ['a broken type', { 'Content-Type': 'application/json;;;=' }, '{"did":"did:web:a"}'],
  ['XML', { 'Content-Type': 'application/xml' }, '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>']
]

export const WRONG_HEADERS: Record<string, string>[] = [
  { Host: '' },
  { Host: 'evil.example' },
  { Host: 'a b' },
  { Origin: 'null' },
  { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' },
  { Origin: '\u00e9' },
  { 'Sec-Fetch-Site': '' },
  { Accept: 'application/problem+json;q=a' },
  { Accept: ',;=/' },
  { Accept: 'a/b,'.repeat(2000) },
  { Accept: 'application/problem+json', 'Accept-Encoding': 'garbage' },
  { 'X-Forwarded-For': '' },
  { 'X-Forwarded-For': 'a'.repeat(8000) },
  { 'X-Forwarded-For': ',,,' },
  { 'X-Forwarded-For': '::ffff:999.1.1.1' },
  { 'X-Forwarded-Host': 'evil.example', 'X-Forwarded-Proto': 'javascript' },
  { 'X-HTTP-Method-Override': 'DELETE' },
  { 'If-None-Match': '*' },
  { Range: 'bytes=0-0,-1' },
  { 'Content-Length': '-1' },
  { 'Content-Length': 'a' },
  { 'Content-Length': '1e3' },
  { 'Content-Length': '99999999999999999999' },
  { 'Content-Length': '5', 'Transfer-Encoding': 'chunked' },
  { 'Transfer-Encoding': 'gzip, chunked' },
  { 'Transfer-Encoding': 'garbage' },
  { Expect: '100-continue' },
  { Expect: 'garbage' },
  { Connection: 'upgrade', Upgrade: 'websocket' },
  { 'X-Large': 'a'.repeat(20_000) },
  { 'Bad Name': 'a' },
  { 'X-Nul': 'a\u0000b' },
  { '': 'a' }
]

export const METHODS = ['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD', 'TRACE', 'PROPFIND', 'get', 'GARBAGE', 'CONNECT']

const RAW: [string, string][] = [
  ['no HTTP at all', 'hello\r\n\r\n'],
  ['a TLS greeting', '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003'],
  ['HTTP/0.9', 'GET /me\r\n\r\n'],
  ['HTTP/9.9', 'GET /me HTTP/9.9\r\nHost: a\r\n\r\n'],
  ['no Host', 'GET /me HTTP/1.1\r\n\r\n'],
  ['half a request line', 'POST /au'],
  ['half the headers', 'POST /auth HTTP/1.1\r\nHost: a\r\nContent-Ty'],
  ['line feeds alone', 'POST /auth HTTP/1.1\nHost: a\n\n'],
  [
    'a chunk with a broken size',
    'POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n'
  ],
  [
    'a chunk shorter than its size',
    'POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{}'
  ],
  [
    'a body shorter than its length',
    'POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{}'
  ],
  [
    'a body longer than its length',
    'POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}GET /me HTTP/1.1\r\n\r\n'
  ],
  [
    'two requests in one',
    'GET /me HTTP/1.1\r\nHost: a\r\n\r\nGET /me HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
  ],
  ['two lengths', 'POST /auth HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} '],
  ['300 headers', `GET /me HTTP/1.1\r\nHost: a\r\n${'X-Many: a\r\n'.repeat(300)}\r\n`],
  ['3,000 headers', `GET /me HTTP/1.1\r\nHost: a\r\n${'X-Many: a\r\n'.repeat(3000)}\r\n`],
  ['nothing', '']
]

/** Every malformed request: each route and field with everything wrong that we could think of. */
export function malformedRequests(good: GoodParts): MalformedRequest[] {
  const requests: MalformedRequest[] = []
  const add = (name: string, method: string, path: string, headers: object, body: string | Buffer = ''): void => {
    requests.push({ name: `${method} ${path.slice(0, 60)}: ${name}`, bytes: toBytes(method, path, headers, body) })
  }
  const json = { 'Content-Type': 'application/json' }
  const withTokens = (text: string): string => text.replaceAll('T', good.accessToken).replaceAll('R', good.refreshToken)

  for (const path of BODY_ROUTES) {
    for (const [field, bodyWith] of FIELDS) {
      for (const value of WRONG_VALUES) {
        add(`${field} is ${value.slice(0, 30)}`, 'POST', path, json, bodyWith(good, value))
      }
    }
    for (const did of WRONG_DIDS) {
      add(`did is ${did.slice(0, 40)}`, 'POST', path, json, `{"did":${quoted(did)},"sig":"${good.sig}"}`)
    }
    for (const [name, headers, body] of WRONG_BODIES) add(name, 'POST', path, { ...json, ...headers }, body)
    for (const headers of WRONG_HEADERS) {
      add(JSON.stringify(headers).slice(0, 60), 'POST', path, { ...json, ...headers }, `{"did":"${good.did}"}`)
    }
    for (const jwt of [good.credentialJwt, ...wrongJwts(good)]) {
      const credentials = JSON.stringify([jwt])
      add('credential', 'POST', path, json, `{"did":"${good.did}","sig":"${good.sig}","credentials":${credentials}}`)
    }
  }
  for (const path of ['/auth', '/signup']) {
    for (const sig of WRONG_SIGNATURES) {
      add(`sig is ${sig.slice(0, 40)}`, 'POST', path, json, `{"did":"${good.did}","sig":${quoted(sig)}}`)
    }
  }
  for (const did of WRONG_DIDS) {
    for (const path of ['/request-auth', '/request-signup']) add('', 'GET', `${path}/${encodeURIComponent(did)}`, {})
  }
  for (const path of ROUTES) {
    for (const method of METHODS) add('method', method, path, json, '{}')
  }
  for (const path of WRONG_PATHS) {
    for (const method of ['GET', 'POST', 'HEAD', 'OPTIONS']) add('path', method, path, json, '')
  }
  for (const [method, path] of [
    ['GET', '/me'],
    ['POST', '/logout'],
    ['POST', '/refresh-token']
  ] as const) {
    for (const jwt of wrongJwts(good)) {
      add('token in header', method, path, { Authorization: `DIDAuth ${jwt}` })
      add('token in cookie', method, path, { Cookie: `authorization=${jwt}; refresh-token=${jwt}` })
    }
    for (const value of WRONG_AUTHORIZATIONS) {
      add(`Authorization: ${value.slice(0, 20)}`, method, path, { Authorization: withTokens(value) })
    }
    for (const value of WRONG_COOKIES) add(`Cookie: ${value.slice(0, 20)}`, method, path, { Cookie: withTokens(value) })
    for (const headers of WRONG_HEADERS) {
      add(JSON.stringify(headers).slice(0, 60), method, path, { Authorization: 'DIDAuth a', ...headers })
    }
  }
  for (const [name, text] of RAW) requests.push({ name, bytes: Buffer.from(text, 'latin1') })
  return requests
}

export function toBytes(method: string, path: string, headers: object, body: string | Buffer): Buffer {
  const bytes = Buffer.from(body)
  const complete: Record<string, string> = {
    Host: 'service.example',
    Connection: 'close',
    'Content-Length': String(bytes.length),
    ...headers
  }
  if (complete['Transfer-Encoding'] !== undefined && !('Content-Length' in headers)) delete complete['Content-Length']
  const lines = Object.entries(complete).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`), bytes])
}

/** Every n-th request, so that `count` of them touch every kind. */
export function sampleOf(requests: readonly MalformedRequest[], count: number): MalformedRequest[] {
  const step = requests.length / count
  return Array.from(
    { length: Math.min(count, requests.length) },
    (_, index) => requests[Math.floor(index * Math.max(1, step))]!
  )
}
