import { Buffer } from 'node:buffer'
import { connect } from 'node:net'
import { numbersFrom } from '../../protocol/random-numbers.js'
import * as values from './malformed-values.js'
import { loginCredential, loginPayload } from '../servers/relay-client.js'
import { scaled } from '../fixtures/time-factor.js'
import { type TestWallet } from '../fixtures/fixtures.js'

/** Malformed request, as bytes on the wire. */
export interface MalformedRequest {
  name: string
  bytes: Buffer
}

/** Values of a valid client. Each malformed request consists of them, with one fault. */
export interface GoodParts {
  did: string
  /** Signature of another message, with a valid format. */
  sig: string
  accessToken: string
  refreshToken: string
  credentialJwt: string
}

type Route = readonly [method: string, path: string]

/** Routes of a service, for which the generator creates requests. */
interface Surface {
  /** Routes with a body, and a valid body. */
  writes: readonly (readonly [...Route, body: object])[]
  /** Routes that require a token, including those of `writes`. */
  guarded: readonly Route[]
  /** Returns the routes whose path has a part that the client chooses. */
  pathsWith: (part: string) => readonly Route[]
  /** A valid `Authorization`. */
  authorization: string
}

const CID = 'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'
const JSON_TYPE = { 'Content-Type': 'application/json' }
/** Number of requests of each service in which 1 to 3 random bytes are changed. They are the same in every run. */
const MUTANTS = 300
const SEED = 20_260_101

/** Returns malformed requests to the routes of the library. */
export function malformedRequests(good: GoodParts): MalformedRequest[] {
  const { did, sig, refreshToken, credentialJwt } = good
  const login = { did, sig, credentials: [credentialJwt], claims: [{ claimType: 'a', claimValue: 'b' }] }
  return generate(good, {
    writes: [
      ['POST', '/request-auth', { did }],
      ['POST', '/request-signup', { did }],
      ['POST', '/auth', login],
      ['POST', '/auth', { response: { did, sig } }],
      ['POST', '/signup', login],
      ['POST', '/refresh-token', { refreshToken }],
      ['POST', '/logout', {}]
    ],
    guarded: [
      ['GET', '/me'],
      ['POST', '/logout'],
      ['POST', '/refresh-token']
    ],
    pathsWith: (part) => [
      ['GET', `/request-auth/${part}`],
      ['GET', `/request-signup/${part}`],
      ['HEAD', `/me/${part}`]
    ],
    authorization: `DIDAuth ${good.accessToken}`
  })
}

/**
 * Returns malformed requests to a relay.
 *
 * @param challenge - challenge that the relay has just issued for the wallet
 */
export function malformedRelayRequests(good: GoodParts, wallet: TestWallet, challenge: string): MalformedRequest[] {
  const payload: object = {
    ...{ sub: wallet.did, aud: 'a', exp: 1, iat: 1, nbf: 1, ...loginPayload(wallet.did, challenge) },
    ...{ issuanceDate: '', expirationDate: '', validUntil: '', issuer: '' }
  }
  const credentials = listPlaces(payload).flatMap((place) =>
    values.WRONG_JSON.map((text) =>
      loginCredential(wallet, challenge, JSON.parse(put(payload, place, text)) as Record<string, unknown>)
    )
  )
  const others = [...values.nearMisses(challenge), 'g'.repeat(128)].map((text) => loginCredential(wallet, text))
  const dids = values.WRONG_DIDS.map((iss) => loginCredential(wallet, challenge, { iss }))
  const requests = generate(good, {
    writes: [
      ['POST', '/request-auth', { did: wallet.did }],
      ['POST', '/auth', { jwt: good.credentialJwt }],
      ['POST', '/auth', { did: wallet.did, sig: `0x${'1'.repeat(130)}`, challenge }],
      ['POST', '/file', { file: 'a' }]
    ],
    guarded: [
      ['POST', '/file'],
      ['GET', `/file/${CID}`],
      ['HEAD', `/file/${CID}`]
    ],
    pathsWith: (part) => ['GET', 'HEAD', 'POST', 'DELETE'].map((method) => [method, `/file/${part}`] as const),
    authorization: good.accessToken
  })
  const login = (jwt: string): MalformedRequest =>
    createRequest('credential', 'POST', '/auth', JSON_TYPE, JSON.stringify({ jwt }))
  return [...requests, ...[...credentials, ...others, ...dids].map(login)]
}

/** Returns malformed requests to a vault. */
export function malformedVaultRequests(good: GoodParts): MalformedRequest[] {
  const writes = [
    ['POST', '/notes'],
    ['PUT', '/notes'],
    ['PUT', `/notes/${CID}`]
  ] as const
  const others = ['/keys', '/storage', '/backup'].map((path) => ['GET', path] as const)
  return generate(good, {
    writes: writes.map((route) => [...route, { content: 'a' }] as const),
    guarded: [...writes, ['DELETE', '/notes'], ['DELETE', `/notes/${CID}`], ...others, ['GET', `/${good.did}/notes`]],
    pathsWith: (part) => [
      ...['GET', 'PUT', 'DELETE'].flatMap((method) => [
        [method, `/${part}`] as const,
        [method, `/notes/${part}`] as const
      ]),
      ['POST', `/${part}`],
      ['GET', `/${part}/notes`],
      ['GET', `/${good.did}/${part}`]
    ],
    authorization: `DIDAuth ${good.accessToken}`
  })
}

/** Generates requests with every listed fault, for every route and field of a service. */
function generate(good: GoodParts, { writes, guarded, pathsWith, authorization }: Surface): MalformedRequest[] {
  const requests: MalformedRequest[] = []
  const add = (name: string, [method, path]: Route, headers: object, body: string | Buffer = ''): void => {
    requests.push(createRequest(name, method, path, headers, body))
  }
  const bearer = { ...JSON_TYPE, Authorization: authorization }
  const withTokens = (text: string): string => text.replaceAll('T', good.accessToken).replaceAll('R', good.refreshToken)

  for (const [method, path, body] of writes) {
    const route = [method, path] as const
    const text = JSON.stringify(body)
    for (const place of listPlaces(body)) {
      const name = place.join('.') || 'the whole body'
      for (const value of [
        ...values.WRONG_JSON,
        ...getWrongTexts(place, good).map((wrongText) => JSON.stringify(wrongText))
      ]) {
        add(`${name} is ${value.slice(0, 30)}`, route, bearer, put(body, place, value))
      }
    }
    const [field = 'did'] = Object.keys(body)
    for (const value of values.WRONG_JSON) {
      const named = value.slice(0, 30)
      add(`${field} twice, ${named}`, route, bearer, `{"${field}":"a","${field}":${value}}`)
      add(`${field} and another field, ${named}`, route, bearer, `{"a":${value},"${field}":"a"}`)
      add(
        `__proto__ is ${named}`,
        route,
        bearer,
        `{"__proto__":{"${field}":${value}},${text.slice(1)}`.replace(',}', '}')
      )
    }
    for (const [name, headers, wrong] of values.WRONG_BODIES) add(name, route, { ...bearer, ...headers }, wrong)
    for (const headers of values.WRONG_HEADERS) add(toName(headers), route, { ...bearer, ...headers }, text)
    for (const other of values.METHODS) add('method', [other, path], bearer, text)
    for (const suffix of ['/', '//', '/%ff', '?a=b', '/a/b', '%2f']) add('path', [method, path + suffix], bearer, text)
    for (const [name, raw] of values.rawRequests(method, path, text)) {
      requests.push({ name, bytes: Buffer.from(raw.replaceAll('TOKEN', authorization), 'latin1') })
    }
  }
  for (const route of guarded) {
    const body = JSON.stringify(writes.find(([method, path]) => method === route[0] && path === route[1])?.[2] ?? {})
    for (const jwt of [good.credentialJwt, ...values.wrongJwts(good.accessToken)]) {
      add('token in header', route, { ...JSON_TYPE, Authorization: `DIDAuth ${jwt}` }, body)
      add('bare token', route, { ...JSON_TYPE, Authorization: jwt }, body)
      add('token in cookie', route, { ...JSON_TYPE, Cookie: `authorization=${jwt}; refresh-token=${jwt}` }, body)
    }
    for (const value of values.WRONG_AUTHORIZATIONS) {
      add(`Authorization: ${value.slice(0, 20)}`, route, { ...JSON_TYPE, Authorization: withTokens(value) }, body)
    }
    for (const value of values.WRONG_COOKIES) {
      add(`Cookie: ${value.slice(0, 20)}`, route, { ...JSON_TYPE, Cookie: withTokens(value) }, body)
    }
    for (const headers of values.WRONG_HEADERS) add(toName(headers), route, { ...bearer, ...headers })
    for (const other of values.METHODS) add('method', [other, route[1]], bearer)
  }
  for (const part of [...values.WRONG_SEGMENTS, ...values.WRONG_DIDS.map(encodeURIComponent)]) {
    for (const route of pathsWith(part)) {
      add('path', route, bearer, '{}')
      add('path without a token', route, {})
    }
  }
  for (const target of values.WRONG_TARGETS) for (const method of ['GET', 'POST']) add('path', [method, target], bearer)
  const all = [...requests, ...createMutants(writes, bearer)]
  return [...new Map(all.map((request) => [request.bytes.toString('latin1'), request])).values()]
}

/** Returns valid requests in which 1 to 3 random bytes are changed. */
function createMutants(writes: Surface['writes'], headers: object): MalformedRequest[] {
  const draw = numbersFrom(SEED)
  return Array.from({ length: MUTANTS }, (_, number) => {
    const [method, path, body] = writes[number % writes.length]!
    const { bytes } = createRequest('', method, path, headers, JSON.stringify(body))
    for (let change = 0; change <= draw(3); change += 1) bytes[draw(bytes.length)] = draw(256)
    return { name: `${method} ${path}: mutant ${number}`, bytes }
  })
}

/** Returns the wrong texts for a field of a body: DIDs, signatures or tokens. */
function getWrongTexts(place: readonly string[], { accessToken, credentialJwt, refreshToken }: GoodParts): string[] {
  const [name = ''] = place.slice(-1)
  if (name === 'did') return values.WRONG_DIDS
  if (name === 'sig') return values.WRONG_SIGNATURES
  if (name === 'refreshToken') return values.nearMisses(refreshToken)
  if (name === 'jwt' || place[0] === 'credentials') return [credentialJwt, ...values.wrongJwts(accessToken)]
  return name === 'challenge' || name === 'content' || name === 'file' ? values.nearMisses('a') : []
}

/** Lists the paths of all fields and items of a value, including the empty path of the value itself. */
function listPlaces(value: unknown): string[][] {
  if (typeof value !== 'object' || value === null) return [[]]
  return [[], ...Object.entries(value).flatMap(([key, inner]) => listPlaces(inner).map((place) => [key, ...place]))]
}

/** Returns the JSON of a value, with another text at one path. */
function put(value: unknown, [key, ...rest]: readonly string[], text: string): string {
  if (key === undefined) return text
  const parts = Object.entries(value as object).map(([name, inner]) => {
    const json = name === key ? put(inner, rest, text) : JSON.stringify(inner)
    return Array.isArray(value) ? json : `${JSON.stringify(name)}:${json}`
  })
  return Array.isArray(value) ? `[${parts.join()}]` : `{${parts.join()}}`
}

const toName = (headers: object): string => JSON.stringify(headers).slice(0, 60)

function createRequest(
  name: string,
  method: string,
  path: string,
  headers: object,
  body: string | Buffer = ''
): MalformedRequest {
  const bytes = Buffer.from(body)
  const allHeaders: Record<string, string> = {
    Host: 'service.example',
    Connection: 'close',
    'Content-Length': String(bytes.length),
    ...headers
  }
  if (allHeaders['Transfer-Encoding'] !== undefined && !('Content-Length' in headers))
    delete allHeaders['Content-Length']
  const lines = Object.entries(allHeaders).map(([header, value]) => `${header}: ${value}\r\n`)
  const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  return { name: `${method} ${path.slice(0, 60)}: ${name}`, bytes: Buffer.concat([head, bytes]) }
}

/** Returns `count` requests at equal distances, so that they include every kind. */
export function takeSample(requests: readonly MalformedRequest[], count: number): MalformedRequest[] {
  const step = Math.max(1, requests.length / count)
  const length = Math.min(count, requests.length)
  return Array.from({ length }, (_, index) => requests[Math.floor(index * step)]!)
}

/** Result of a run of malformed requests. */
export interface MalformedRun {
  sent: number
  /** Number of answers by status. Status 0: the connection ended without an answer. */
  statuses: Record<string, number>
  /** Requests without an answer in time, or with an answer that is 5xx or has a stack trace or HTML. Must be empty. */
  faults: string[]
  /** Number of answers with a page of Express. An application may have them; the servers of this package must not. */
  pages: number
}

const PARALLEL = 16
/** Parts of HTML pages and stack traces, which no answer may contain. */
const LEAK =
  /<html|<!doctype|<body|<pre|node_modules|\n\s+at |\.[jt]s:\d+|TypeError|SyntaxError|ReferenceError|RangeError/i

/** Sends requests, 16 at a time, each over a new connection. */
export async function runMalformed(
  port: number,
  requests: readonly MalformedRequest[],
  hangMilliseconds = scaled(30_000)
): Promise<MalformedRun> {
  const run: MalformedRun = { sent: 0, statuses: {}, faults: [], pages: 0 }
  const queue = [...requests]
  const work = async (): Promise<void> => {
    for (let request = queue.pop(); request !== undefined; request = queue.pop()) {
      const { text, hung } = await exchange(port, request.bytes, hangMilliseconds)
      const status = /^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? '0'
      run.sent += 1
      run.statuses[status] = (run.statuses[status] ?? 0) + 1
      if (hung) run.faults.push(`hangs: ${request.name}`)
      if (status.startsWith('5')) run.faults.push(`${status}: ${request.name}`)
      // Express answers 404 with its own page to a URL that it cannot parse. Such a request reaches no route.
      const isExpressPage = status === '404' && text.includes('<pre>Cannot ')
      if (isExpressPage) run.pages += 1
      if (LEAK.test(text) && !isExpressPage) run.faults.push(`leaks: ${request.name}: ${text.slice(0, 300)}`)
    }
  }
  await Promise.all(Array.from({ length: PARALLEL }, work))
  return run
}

/** Sends bytes, half-closes, and reads until the server ends the connection or the time limit is over. */
export function exchange(
  port: number,
  bytes: Buffer,
  hangMilliseconds = scaled(30_000)
): Promise<{ text: string; hung: boolean }> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const socket = connect({ port, host: '127.0.0.1' })
    const done = (hung: boolean): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ text: Buffer.concat(chunks).toString(), hung })
    }
    const timer = setTimeout(() => done(true), hangMilliseconds)
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('close', () => done(false))
    // A reset also ends the connection: the server need not read a request that it has refused.
    socket.on('error', () => done(false))
    socket.end(bytes)
  })
}
