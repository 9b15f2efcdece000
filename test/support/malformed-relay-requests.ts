import {
  METHODS,
  toBytes,
  WRONG_AUTHORIZATIONS,
  WRONG_BODIES,
  WRONG_DIDS,
  WRONG_HEADERS,
  WRONG_VALUES,
  wrongJwts,
  type GoodParts,
  type MalformedRequest
} from './malformed-requests.js'
import { loginCredential, loginPayload } from './relay-login.js'
import type { TestWallet } from './wallet.js'

const CID = 'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'

const FILE_ROUTES = [
  ['POST', '/file'],
  ['GET', `/file/${CID}`],
  ['HEAD', `/file/${CID}`]
] as const

/** What stands where a cid should. */
const WRONG_NAMES = [
  '',
  '.',
  '..',
  '%2e%2e%2fetc%2fpasswd',
  '..%2f..%2frelay.db',
  '%',
  '%0',
  '%zz',
  '%00',
  '%0d%0aSet-Cookie:a=b',
  '%ff%fe',
  '%c0%80',
  '%E0%A4%A',
  '*',
  ':cid',
  '{cid}',
  '__proto__',
  'constructor',
  'hasOwnProperty',
  'QmWATWQ7fVPP2EFGu71UkfnqhYXDYH566qy47CnJDgvs8u',
  CID.toUpperCase(),
  `${CID}${CID}`,
  `${CID}/`,
  `${CID}/a/b`,
  `${CID}?a=b#c`,
  `${CID};a=b`,
  `/${CID}`,
  `\\${CID}`,
  'a'.repeat(8_000),
  '/'.repeat(2_000),
  '%41'.repeat(2_000)
]

/** Fields of a credential's payload that are spoilt one by one, by a JSON value. */
const CREDENTIAL_FIELDS: [string, (payload: ReturnType<typeof loginPayload>, value: unknown) => object][] = [
  ['iss', (payload, value) => ({ ...payload, iss: value })],
  ['sub', (payload, value) => ({ ...payload, sub: value })],
  ['aud', (payload, value) => ({ ...payload, aud: value })],
  ['exp', (payload, value) => ({ ...payload, exp: value })],
  ['iat', (payload, value) => ({ ...payload, iat: value })],
  ['nbf', (payload, value) => ({ ...payload, nbf: value })],
  ['vc', (payload, value) => ({ ...payload, vc: value })],
  ['@context', (payload, value) => ({ ...payload, vc: { ...payload.vc, '@context': value } })],
  ['type', (payload, value) => ({ ...payload, vc: { ...payload.vc, type: value } })],
  ['issuanceDate', (payload, value) => ({ ...payload, vc: { ...payload.vc, issuanceDate: value } })],
  ['expirationDate', (payload, value) => ({ ...payload, vc: { ...payload.vc, expirationDate: value } })],
  ['validUntil', (payload, value) => ({ ...payload, vc: { ...payload.vc, validUntil: value } })],
  ['issuer', (payload, value) => ({ ...payload, vc: { ...payload.vc, issuer: value } })],
  ['credentialSubject', (payload, value) => ({ ...payload, vc: { ...payload.vc, credentialSubject: value } })],
  ['claims', (payload, value) => ({ ...payload, vc: { ...payload.vc, credentialSubject: { claims: value } } })],
  ['claim', (payload, value) => ({ ...payload, vc: { ...payload.vc, credentialSubject: { claims: [value] } } })]
]

const RAW: [string, string][] = [
  ['half a path', 'GET /file/ba'],
  ['a path of a megabyte', `GET /file/${'a'.repeat(1_000_000)} HTTP/1.1\r\nHost: a\r\n\r\n`],
  ['no Host', 'POST /file HTTP/1.1\r\n\r\n'],
  ['line feeds alone', 'POST /file HTTP/1.1\nHost: a\n\n'],
  ['a chunk with a broken size', chunked('zz\r\n{}\r\n0\r\n\r\n')],
  ['a chunk shorter than its size', chunked('ff\r\n{"file":"a')],
  ['a chunk of a size beyond numbers', chunked('ffffffffffffffffff\r\n{}')],
  ['no chunk', chunked('0\r\n\r\n')],
  ['a body shorter than its length', withLength('99', '{"file":"a"}')],
  ['a body longer than its length', withLength('12', '{"file":"a"}GET /file/a HTTP/1.1\r\n\r\n')],
  ['a length of 40 MiB, and little of it', withLength('41943040', '{"file":"a')],
  ['a length of 1 TiB', withLength('1099511627776', '{"file":"a')],
  ['two lengths', withLength('2\r\nContent-Length: 3', '{} ')],
  ['two tokens', withLength('12\r\nAuthorization: a', '{"file":"a"}')]
]

/** Every malformed request to a relay: each route with each part of its path, body, token and credential spoilt. */
export function malformedRelayRequests(good: GoodParts, wallet: TestWallet, challenge: string): MalformedRequest[] {
  const requests: MalformedRequest[] = []
  const json = { 'Content-Type': 'application/json' }
  const bearer = { ...json, Authorization: good.accessToken }
  const add = (name: string, method: string, path: string, headers: object, body: string | Buffer = ''): void => {
    requests.push({ name: `${method} ${path.slice(0, 60)}: ${name}`, bytes: toBytes(method, path, headers, body) })
  }

  for (const [path, field] of [
    ['/request-auth', 'did'],
    ['/auth', 'jwt'],
    ['/auth', 'sig'],
    ['/file', 'file']
  ] as const) {
    for (const value of WRONG_VALUES) {
      const name = value.slice(0, 30)
      add(`${field} is ${name}`, 'POST', path, bearer, `{"${field}":${value}}`)
      add(`${field} and another field, ${name}`, 'POST', path, bearer, `{"a":${value},"${field}":"a"}`)
      add(`${field} twice, ${name}`, 'POST', path, bearer, `{"${field}":"a","${field}":${value}}`)
      add(`the whole body is ${name}`, 'POST', path, bearer, value)
      add(`__proto__ is ${name}`, 'POST', path, bearer, `{"__proto__":{"${field}":${value}}}`)
    }
    for (const [name, headers, body] of WRONG_BODIES) add(name, 'POST', path, { ...bearer, ...headers }, body)
    for (const headers of WRONG_HEADERS) {
      add(JSON.stringify(headers).slice(0, 60), 'POST', path, { ...bearer, ...headers }, `{"${field}":"a"}`)
    }
    for (const method of METHODS) add('method', method, path, bearer, `{"${field}":"a"}`)
    for (const suffix of ['/', '//', '/%ff', '?a=b', '/a/b', '%2f']) add('path', 'POST', path + suffix, bearer, '{}')
  }
  for (const did of WRONG_DIDS) {
    add(`did is ${did.slice(0, 40)}`, 'POST', '/request-auth', json, JSON.stringify({ did }))
    add(`iss is ${did.slice(0, 40)}`, 'POST', '/auth', json, login(wallet, challenge, { iss: did }))
  }
  for (const jwt of [good.credentialJwt, ...wrongJwts(good)]) {
    add('credential', 'POST', '/auth', json, JSON.stringify({ jwt }))
  }
  const signed: Record<string, unknown> = { did: wallet.did, sig: `0x${'1'.repeat(130)}`, challenge }
  for (const field of ['did', 'sig', 'challenge', 'jwt']) {
    for (const value of WRONG_VALUES) {
      const rest = JSON.stringify({ ...signed, [field]: undefined }).slice(0, -1)
      add(`${field} of a signature is ${value.slice(0, 30)}`, 'POST', '/auth', json, `${rest},"${field}":${value}}`)
    }
  }
  for (const [field, spoil] of CREDENTIAL_FIELDS) {
    for (const value of WRONG_VALUES) {
      const payload = spoil(loginPayload(wallet.did, challenge), parsed(value))
      add(`${field} is ${value.slice(0, 30)}`, 'POST', '/auth', json, login(wallet, challenge, { ...payload }))
    }
  }
  for (const value of ['', challenge.slice(1), `${challenge}0`, challenge.toUpperCase(), 'g'.repeat(128)]) {
    add('challenge', 'POST', '/auth', json, login(wallet, value, {}))
  }
  for (const [method, path] of FILE_ROUTES) {
    const body = method === 'POST' ? '{"file":"a"}' : ''
    for (const jwt of wrongJwts(good)) {
      add('bare token', method, path, { ...json, Authorization: jwt }, body)
      add('token with scheme', method, path, { ...json, Authorization: `DIDAuth ${jwt}` }, body)
    }
    for (const value of WRONG_AUTHORIZATIONS) {
      const Authorization = value.replaceAll('T', good.accessToken)
      add(`Authorization: ${value.slice(0, 20)}`, method, path, { ...json, Authorization }, body)
    }
    for (const headers of WRONG_HEADERS) {
      add(JSON.stringify(headers).slice(0, 60), method, path, { ...bearer, ...headers }, body)
    }
  }
  for (const name of WRONG_NAMES) {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS']) {
      add('path', method, `/file/${name}`, bearer)
      add('path without a token', method, `/file/${name}`, {})
    }
    add('path', 'GET', `/${name}`, bearer)
  }
  for (const [name, text] of RAW) {
    requests.push({ name, bytes: Buffer.from(text.replace('TOKEN', good.accessToken), 'latin1') })
  }
  return requests
}

function login(wallet: TestWallet, challenge: string, changes: Record<string, unknown>): string {
  return JSON.stringify({ jwt: loginCredential(wallet, challenge, changes) })
}

/** A value as the payload may hold it; what JSON cannot spell there is a text. */
function parsed(value: string): unknown {
  try {
    return JSON.parse(value) as unknown
  } catch {
    return value
  }
}

function chunked(body: string): string {
  return `POST /file HTTP/1.1\r\nHost: a\r\nAuthorization: TOKEN\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body}`
}

function withLength(length: string, body: string): string {
  return `POST /file HTTP/1.1\r\nHost: a\r\nAuthorization: TOKEN\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`
}
