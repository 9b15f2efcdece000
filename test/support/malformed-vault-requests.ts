import {
  METHODS,
  toBytes,
  WRONG_AUTHORIZATIONS,
  WRONG_BODIES,
  WRONG_COOKIES,
  WRONG_DIDS,
  WRONG_HEADERS,
  WRONG_VALUES,
  wrongJwts,
  type GoodParts,
  type MalformedRequest
} from './malformed-requests.js'

const CID = 'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'

const WRITES = [
  ['POST', '/notes'],
  ['PUT', '/notes'],
  ['PUT', `/notes/${CID}`]
] as const

const GUARDED = [
  ...WRITES,
  ['DELETE', '/notes'],
  ['DELETE', `/notes/${CID}`],
  ['GET', '/keys'],
  ['GET', '/storage'],
  ['GET', '/backup']
] as const

/** What stands in a path where a key, an id or a DID should. */
const WRONG_SEGMENTS = [
  '',
  '.',
  '..',
  '...',
  '%2e',
  '%2e%2e',
  '%2E%2e%2fetc%2fpasswd',
  '..%2f..%2fvault.db',
  '%',
  '%0',
  '%zz',
  '%00',
  '%0d%0aSet-Cookie:a=b',
  '%ff%fe',
  '%c0%80',
  '%ed%a0%80',
  '%E0%A4%A',
  '%f4%90%80%80',
  '%7f',
  '%c2%85',
  '%E2%80%AE',
  '%EF%BB%BF',
  '*',
  ':key',
  ':key(.*)',
  '{key}',
  'a;b=c',
  'a?b=c',
  'a#b',
  'a%3Fb%23c',
  'a b',
  'a"b',
  "'%20OR%20'1'='1",
  "');DROP%20TABLE%20entries;--",
  '<script>alert(1)<%2Fscript>',
  '__proto__',
  'constructor',
  'hasOwnProperty',
  'auth',
  'AUTH',
  '%61uth',
  'auth%2f',
  'auth/',
  'request-auth',
  'Refresh-Token',
  'keys',
  'health',
  'undefined',
  'a/b/c',
  '//a',
  'a//b',
  'a\\b',
  'é',
  'k'.repeat(512),
  'k'.repeat(513),
  'k'.repeat(12_000),
  '%61'.repeat(600),
  '%F0%9F%92%A5'.repeat(129),
  CID,
  CID.slice(0, -1),
  CID.toUpperCase(),
  'Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD'
]

const READ_HEADERS: Record<string, string>[] = [
  { 'If-None-Match': '"' },
  { 'If-None-Match': ',,,' },
  { 'If-None-Match': 'W/' },
  { 'If-None-Match': '"a",'.repeat(2_000) },
  { 'If-Modified-Since': 'garbage' },
  { 'If-Match': '"a"' },
  { Range: 'bytes=0-99999999999' },
  { Range: 'bytes=-1' },
  { 'Accept-Encoding': 'gzip;q=garbage' },
  { 'Content-Length': '2' }
]

const RAW: [string, string][] = [
  ['a chunk with a broken size', chunked('zz\r\n{}\r\n0\r\n\r\n')],
  ['a chunk shorter than its size', chunked('ff\r\n{}')],
  ['a chunk of a negative size', chunked('-1\r\n{}\r\n0\r\n\r\n')],
  ['no last chunk', chunked('2\r\n{}\r\n')],
  ['a body shorter than its length', withLength(99, '{"content":"a"}')],
  ['a body longer than its length', withLength(2, '{}GET /keys HTTP/1.1\r\n\r\n')],
  ['a length far above every maximum', withLength(99_999_999, '{"content":"a"}')],
  ['no body at all', withLength(0, '')],
  ['two requests in one', `${withLength(2, '{}')}GET /a/b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`],
  ['half a path', 'PUT /notes/'],
  ['a path of a megabyte', `GET /${'a'.repeat(1_000_000)}/b HTTP/1.1\r\nHost: a\r\n\r\n`]
]

/** Every malformed request to a vault: each verb and each part of its path, body and headers, spoilt. */
export function malformedVaultRequests(good: GoodParts): MalformedRequest[] {
  const requests: MalformedRequest[] = []
  const add = (name: string, method: string, path: string, headers: object, body: string | Buffer = ''): void => {
    requests.push({ name: `${method} ${path.slice(0, 60)}: ${name}`, bytes: toBytes(method, path, headers, body) })
  }
  const withTokens = (text: string): string => text.replaceAll('T', good.accessToken).replaceAll('R', good.refreshToken)
  const bearer = { Authorization: `DIDAuth ${good.accessToken}`, 'Content-Type': 'application/json' }
  const content = '{"content":"a"}'

  for (const [method, path] of WRITES) {
    for (const value of WRONG_VALUES) {
      add(`content is ${value.slice(0, 30)}`, method, path, bearer, `{"content":${value}}`)
      add(`content and another field, ${value.slice(0, 30)}`, method, path, bearer, `{"a":${value},"content":"a"}`)
      add(`content twice, ${value.slice(0, 30)}`, method, path, bearer, `{"content":"a","content":${value}}`)
      add(`the whole body is ${value.slice(0, 30)}`, method, path, bearer, value)
      add(`__proto__ is ${value.slice(0, 30)}`, method, path, bearer, `{"__proto__":{"content":${value}}}`)
    }
    for (const [name, headers, body] of WRONG_BODIES) add(name, method, path, { ...bearer, ...headers }, body)
    for (const headers of WRONG_HEADERS) {
      add(JSON.stringify(headers).slice(0, 60), method, path, { ...bearer, ...headers }, content)
    }
  }
  for (const [method, path] of GUARDED) {
    const body = method === 'GET' || method === 'DELETE' ? '' : content
    const json = { 'Content-Type': 'application/json' }
    for (const jwt of [good.credentialJwt, ...wrongJwts(good)]) {
      add('token in header', method, path, { ...json, Authorization: `DIDAuth ${jwt}` }, body)
      add('token in cookie', method, path, { ...json, Cookie: `authorization=${jwt}` }, body)
    }
    for (const value of WRONG_AUTHORIZATIONS) {
      add(`Authorization: ${value.slice(0, 20)}`, method, path, { ...json, Authorization: withTokens(value) }, body)
    }
    for (const value of WRONG_COOKIES) {
      add(`Cookie: ${value.slice(0, 20)}`, method, path, { ...json, Cookie: withTokens(value) }, body)
    }
    for (const other of METHODS) add('method', other, path, bearer, content)
    for (const headers of READ_HEADERS)
      add(JSON.stringify(headers).slice(0, 60), method, path, { ...bearer, ...headers })
  }
  for (const segment of WRONG_SEGMENTS) {
    for (const path of [`/${segment}`, `/${segment}/${CID}`, `/notes/${segment}`]) {
      add('path', 'PUT', path, bearer, content)
      add('path', 'DELETE', path, bearer)
    }
    add('path', 'POST', `/${segment}`, bearer, content)
    add('path', 'POST', `/${segment}/a`, bearer, content)
    for (const path of [`/${segment}`, `/${segment}/notes`, `/${good.did}/${segment}`]) add('path', 'GET', path, {})
  }
  for (const did of WRONG_DIDS) {
    add('', 'GET', `/${encodeURIComponent(did)}/notes`, {})
    add('', 'HEAD', `/${encodeURIComponent(did)}/notes`, {})
  }
  for (const headers of [...WRONG_HEADERS, ...READ_HEADERS]) {
    add(JSON.stringify(headers).slice(0, 60), 'GET', `/${good.did}/notes`, headers)
  }
  for (const [name, text] of RAW) {
    const bytes = Buffer.from(text.replace('TOKEN', good.accessToken), 'latin1')
    requests.push({ name, bytes })
  }
  return requests
}

function chunked(body: string): string {
  return `POST /notes HTTP/1.1\r\nHost: a\r\nAuthorization: DIDAuth TOKEN\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body}`
}

function withLength(length: number, body: string): string {
  return `PUT /notes HTTP/1.1\r\nHost: a\r\nAuthorization: DIDAuth TOKEN\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`
}
