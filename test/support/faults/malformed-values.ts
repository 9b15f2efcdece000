import { Buffer } from 'node:buffer'

/** Splits a text into words. */
const words = (text: string): string[] => text.trim().split(/\s+/)

/** JSON texts that replace a valid value. Some of them, such as `1e999`, are not the JSON of any JavaScript value. */
export const WRONG_JSON = [
  ...words(`null true false 0 -1 1e999 12345678901234567890123 "" "\\u0000" "\\ud800" "💥" "__proto__" "constructor"
    "<script>alert(1)</script>" "\\r\\nSet-Cookie:a=b" [] [null] [[[[]]]] ["a","b"] {} {"__proto__":{"did":"did:web:a"}}
    {"toString":1,"valueOf":2,"length":3} {"did":"did:web:a","sig":"0x"}`),
  '" "',
  `"${'a'.repeat(10_000)}"`,
  `${'['.repeat(2000)}${']'.repeat(2000)}`
]

/** Returns variants of a valid text, each with one fault. */
export function nearMisses(valid: string): string[] {
  const middle = Math.floor(valid.length / 2)
  const around = [
    ` ${valid}`,
    `${valid} `,
    `${valid}\u0000`,
    `${valid}\n`,
    `${valid}\u00e9`,
    `${valid}0`,
    `.${valid}`,
    `${valid}=`
  ]
  const cut = ['', valid.slice(1), valid.slice(0, -1), valid.slice(0, middle), valid + valid, valid.slice(0, 1)]
  const changed = [valid.toUpperCase(), `${valid.slice(0, middle)}g${valid.slice(middle + 1)}`, `${valid}#a?b=c/d`]
  return [...around, ...cut, ...changed, valid.repeat(Math.ceil(8_000 / valid.length))]
}

const ADDRESS = '7e5f4552091a69125d5dfcb7b8c2659029395bdf'
export const GOOD_DID = `did:ethr:rsk:0x${ADDRESS}`

export const WRONG_DIDS = [
  ...nearMisses(GOOD_DID),
  ...words(`did did: did:: did:ethr did:ethr: did:ethr:0x did:ethr:${ADDRESS} did:ethr::0x${ADDRESS}
    did:ethr:rsk:testnet:third:0x${ADDRESS} did:ethr:0x1e0x${ADDRESS} did:ethr:rsk:\uff10x${ADDRESS}
    did:ETHR:rsk:0x${ADDRESS} did:ethr:__proto__:0x${ADDRESS} did:ethr:constructor:0x${ADDRESS}
    did:ethr:0xffffffffffffffff:0x${ADDRESS} did:ethr:rsk:0x${'0'.repeat(40)} did:web:localhost%3A3000 did:web:%
    did:example:../../etc/passwd did:example:${'a'.repeat(117)} did:${':'.repeat(120)} did:example:%00`),
  "did:example:' OR 1=1 --"
]

const N = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'
const HALF_N_AND_ONE = '7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a1'
const [ONE, ZERO] = ['1'.padStart(64, '0'), '0'.repeat(64)]

/** Signatures with a wrong length, spelling or v, with r or s outside the group, or with s in its upper half. */
export const WRONG_SIGNATURES = [
  ...nearMisses(`0x${ONE}${ONE}1b`),
  ...words('00 02 1a 1d 22 23 25 5f ff 1B 1b1b').map((v) => `0x${ONE}${ONE}${v}`),
  ...[ZERO, N].flatMap((number) => [`0x${number}${ONE}1b`, `0x${ONE}${number}1b`]),
  ...words(`0x 0X 0x${'0'.repeat(130)} 0x${'f'.repeat(130)} 0x${ONE}${HALF_N_AND_ONE}1b ${ONE}${ONE}1b ${ONE}.${ONE}
    0x${N.replace(/1$/, '0')}${ONE}1c ${Buffer.alloc(65, 1).toString('base64')}`)
]

const base64url = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

/** Returns JWTs with one fault each. */
export function wrongJwts(valid: string): string[] {
  const [header = '', payload = '', signature = ''] = valid.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object
  const others = [null, [], 7, {}, 'a', '{', '']
  const algorithms = ['none', 'HS256', 'ES256', 'ES256K-R', ['ES256K']].map((alg) => ({ alg, typ: 'JWT' }))
  const fields = [{ crit: ['a'] }, { jwk: {} }, { kid: '../../key' }].map((field) => ({ alg: 'ES256K', ...field }))
  const changes = [{ exp: 0 }, { exp: null }, { exp: '1' }, { sub: 'did:web:evil' }, { aud: [] }, { __proto__: null }]
  const changedClaims = changes.map((change) => ({ ...claims, ...change }))
  const signatures = [Buffer.alloc(64), Buffer.alloc(64, 255), Buffer.alloc(65, 1), Buffer.alloc(7_500)]
  return [
    ...nearMisses(valid),
    ...[...algorithms, ...fields, ...others].map((value) => `${base64url(value)}.${payload}.${signature}`),
    ...[...changedClaims, ...others].map((value) => `${header}.${base64url(value)}.${signature}`),
    ...signatures.map((bytes) => `${header}.${payload}.${bytes.toString('base64url')}`),
    ...words(`. .. ... a.b.c ${header}.${payload}. ${header}.${payload} ${header}..${signature} .${payload}.${signature}
      undefined null %00 💥`)
  ]
}

/** Wrong `Authorization` headers. `T` stands for an access token. */
export const WRONG_AUTHORIZATIONS = [
  ...['', ' ', 'DIDAuth', 'DIDAuth ', 'DIDAuth  ', 'DIDAuth\tT', 'DIDAuth T T', 'DIDAuth T,T', 'DIDAuth "T"', 'T T'],
  ...['DIDAuth token=T', 'DIDAuth: T', 'Bearer T', 'Basic dXNlcjpwYXNz', 'Digest username="a"', 'T', '\u00e9 T'],
  ...[`DIDAuth ${'a'.repeat(12_000)}`, `${'DIDAuth '.repeat(1000)}T`]
]

/** Wrong `Cookie` headers. `T` stands for an access token, `R` for a refresh token. */
export const WRONG_COOKIES = [
  ...words(`; = ;;;=== authorization authorization= authorization=;authorization= authorization=T;authorization=T
    authorization=% authorization=%E0%A4%A authorization=j:{"a":1} authorization=j:null authorization=j:
    authorization=s:T.T authorization="T authorization=T;refresh-token=R;refresh-token=R refresh-token=
    refresh-token=j:["R"] refresh-token=R;refresh-token=R __proto__=1;constructor=2;authorization=T;hasOwnProperty=3
    \u00e9=\u00e9;authorization=\u00e9 authorization=${'a'.repeat(12_000)}`),
  '',
  'a=b; '.repeat(2000)
]

/** Wrong path segments that replace a key, a CID or a DID. */
export const WRONG_SEGMENTS = [
  ...words(`. .. ... %2e %2e%2e %2E%2e%2fetc%2fpasswd ..%2f..%2fvault.db % %0 %zz %00 %0d%0aSet-Cookie:a=b %ff%fe %c0%80
    %ed%a0%80 %E0%A4%A %f4%90%80%80 %7f %c2%85 %E2%80%AE %EF%BB%BF * :key :key(.*) {key} a;b=c a?b=c a#b a%3Fb%23c a"b
    '%20OR%20'1'='1 ');DROP%20TABLE%20entries;-- <script>alert(1)<%2Fscript> __proto__ constructor hasOwnProperty auth AUTH
    %61uth auth%2f auth/ request-auth Refresh-Token keys health undefined a/b/c //a a//b a\\b \u00e9
    ${'k'.repeat(512)} ${'k'.repeat(513)} ${'k'.repeat(12_000)} ${'%61'.repeat(2_000)} ${'%F0%9F%92%A5'.repeat(129)}
    ${'/'.repeat(2_000)} Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD did:web:a%23b did:web:a;x=y`),
  ...nearMisses('bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'),
  '',
  'a b'
]

/** Request targets that are not the path of a route. */
export const WRONG_TARGETS = words(`//request-auth /auth? /auth?__proto__[did]=a /auth?did[]=a&did[b]=c /AUTH// /%61uth
  /me?a=%E0%A4%A http://evil.example/auth http://[::1/auth * /\u00e9`)

/** Bodies that are not JSON or do not match their headers: name, headers and body. */
export const WRONG_BODIES: [string, Record<string, string>, string | Buffer][] = [
  ['half an object', {}, '{"did":'],
  ['a stray comma', {}, '{"did":"a",}'],
  ['a byte order mark only', {}, Buffer.from([0xef, 0xbb, 0xbf])],
  ['bytes that are not UTF-8', {}, Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])],
  ['UTF-16', {}, Buffer.from('{"did":"did:web:a"}', 'utf16le')],
  ['UTF-32', {}, Buffer.from([0x7b, 0, 0, 0, 0x7d, 0, 0, 0])],
  ['zero bytes', {}, Buffer.alloc(1000)],
  ['brackets without an end', {}, '['.repeat(16_000)],
  ['braces without an end', {}, '{"a":'.repeat(3000)],
  ['one byte too many', {}, `{"did":"${'a'.repeat(16_384 - 9)}"}`],
  ['far too much', {}, `{"did":"${'a'.repeat(700_000)}"}`],
  ['many names', {}, `{${Array.from({ length: 1500 }, (_, index) => `"${index}":1`).join(',')}}`],
  ['a name many times', {}, `{${Array<string>(1000).fill('"did":1').join(',')}}`],
  ['a body that is not gzip', { 'Content-Encoding': 'gzip' }, '{"did":"did:web:a"}'],
  ['an unknown encoding', { 'Content-Encoding': 'garbage' }, '{"did":"did:web:a"}'],
  ['an unknown charset', { 'Content-Type': 'application/json; charset=garbage' }, '{"did":"did:web:a"}'],
  ['a form', { 'Content-Type': 'application/x-www-form-urlencoded' }, 'did=did:web:a&sig[a]=b'],
  ['a multipart body without its boundary', { 'Content-Type': 'multipart/form-data' }, '--a\r\n\r\n--a--'],
  ['a text', { 'Content-Type': 'text/plain' }, 'hello'],
  ['an empty type', { 'Content-Type': '' }, '{"did":"did:web:a"}'],
  ['a broken type', { 'Content-Type': 'application/json;;;=' }, '{"did":"did:web:a"}'],
  ['XML', { 'Content-Type': 'application/xml' }, '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>']
]

/** Malformed headers of one request each: names and values. */
export const WRONG_HEADERS: Record<string, string>[] = [
  ...Object.entries({
    Host: ['', 'evil.example', 'a b'],
    Origin: ['null', '\u00e9'],
    'Sec-Fetch-Site': [''],
    Accept: ['application/problem+json;q=a', ',;=/', 'a/b,'.repeat(2000)],
    'Accept-Encoding': ['garbage', 'gzip;q=garbage'],
    'X-Forwarded-For': ['', 'a'.repeat(8000), ',,,', '::ffff:999.1.1.1'],
    'X-HTTP-Method-Override': ['DELETE'],
    'If-None-Match': ['*', '"', ',,,', 'W/', '"a",'.repeat(2_000)],
    'If-Modified-Since': ['garbage'],
    'If-Match': ['"a"'],
    Range: ['bytes=0-0,-1', 'bytes=0-99999999999', 'bytes=-1'],
    'Content-Length': ['-1', 'a', '1e3', '2', '99999999999999999999'],
    'Transfer-Encoding': ['gzip, chunked', 'garbage'],
    Expect: ['100-continue', 'garbage'],
    'X-Large': ['a'.repeat(20_000)],
    'Bad Name': ['a'],
    'X-Nul': ['a\u0000b'],
    '': ['a']
  }).flatMap(([name, values]) => values.map((value) => ({ [name]: value }))),
  { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' },
  { 'X-Forwarded-Host': 'evil.example', 'X-Forwarded-Proto': 'javascript' },
  { 'Content-Length': '5', 'Transfer-Encoding': 'chunked' },
  { Connection: 'upgrade', Upgrade: 'websocket' }
]

export const METHODS = words('PUT PATCH DELETE OPTIONS HEAD TRACE PROPFIND get GARBAGE CONNECT')

/** Returns names and bytes of invalid or incomplete requests. `TOKEN` stands for a valid `Authorization`. */
export function rawRequests(method: string, path: string, body: string): [string, string][] {
  const head = `${method} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: TOKEN\r\nContent-Type: application/json`
  const chunked = (chunks: string): string => `${head}\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`
  const withLength = (length: number | string, text = body): string =>
    `${head}\r\nContent-Length: ${length}\r\n\r\n${text}`
  return [
    ['no HTTP at all', 'hello\r\n\r\n'],
    ['a TLS greeting', '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003'],
    ['HTTP/0.9', `${method} ${path}\r\n\r\n`],
    ['HTTP/9.9', `${method} ${path} HTTP/9.9\r\nHost: a\r\n\r\n`],
    ['no Host', `${method} ${path} HTTP/1.1\r\n\r\n`],
    ['half a request line', `${method} ${path.slice(0, 3)}`],
    ['half the headers', head.slice(0, -9)],
    ['line feeds without carriage returns', `${method} ${path} HTTP/1.1\nHost: a\n\n`],
    ['a chunk with a broken size', chunked('zz\r\n{}\r\n0\r\n\r\n')],
    ['a chunk shorter than its size', chunked('ff\r\n{}')],
    ['a chunk with a negative size', chunked('-1\r\n{}\r\n0\r\n\r\n')],
    ['a chunk with a size of 72 bits', chunked('ffffffffffffffffff\r\n{}')],
    ['no chunk', chunked('0\r\n\r\n')],
    ['no last chunk', chunked('2\r\n{}\r\n')],
    ['a body shorter than its length', withLength(99)],
    ['a body longer than its length', withLength(2, '{}GET /me HTTP/1.1\r\n\r\n')],
    ['a length of 40 MiB with a short body', withLength(41_943_040)],
    ['a length of 1 TiB', withLength(1_099_511_627_776)],
    ['no body', withLength(0, '')],
    ['two requests in one', `${withLength(2, '{}')}GET /me HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`],
    ['two lengths', withLength('2\r\nContent-Length: 3', '{} ')],
    ['two tokens', withLength(`${body.length}\r\nAuthorization: a`)],
    ['300 headers', `${head}\r\n${'X-Many: a\r\n'.repeat(300)}\r\n`],
    ['3,000 headers', `${head}\r\n${'X-Many: a\r\n'.repeat(3000)}\r\n`],
    ['a path of a megabyte', `GET /file/${'a'.repeat(1_000_000)} HTTP/1.1\r\nHost: a\r\n\r\n`],
    ['no bytes', '']
  ]
}
