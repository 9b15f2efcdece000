import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { OpenApiDocument } from '../../../servers/openapi/document.js'
import { documents, listOperations, type Operation } from '../../support/fixtures/openapi.js'
import { loginCredential, startTestRelay } from '../../support/servers/relay-app.js'
import { post, closeServices, serving } from '../../support/servers/server-client.js'
import { testAuthServer } from '../../support/servers/test-app.js'
import { testVault } from '../../support/servers/vault-app.js'
import { createLoginText, createNumberedWallet } from '../../support/fixtures/fixtures.js'
import { createSiweText } from '../../support/fixtures/siwe.js'
import { createForm, createMachine, ORDERS } from '../../support/fixtures/machines.js'
import { systemClock } from '../../../src/time.js'

/** A recorded request with its response. */
interface Exchange {
  method: string
  path: string
  sent: unknown
  status: number
  headers: Headers
  text: string
}

/** Compares exchanges with the schemas of a document, and returns the contradictions. */
function findContradictions(document: OpenApiDocument, exchanges: readonly Exchange[]): string[] {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
  ajv.addSchema({ $id: 'document', components: document.components })
  const isValid = (schema: object, value: unknown): boolean => {
    const text = JSON.stringify(schema).replaceAll('"#/components/', '"document#/components/')
    return ajv.validate(JSON.parse(text) as object, value)
  }
  const faults = exchanges.flatMap(({ method, path, sent, status, headers, text }) => {
    const operation = findOperation(document, method, path)
    const where = `${method} ${path} ${status}`
    if (operation === undefined) return [`${where}: no operation`]
    const response = operation.responses[String(status)]
    if (response === undefined) return [`${where}: no such response`]
    const requestSchema = operation.requestBody?.content['application/json']?.schema
    const isSuccess = status < 300
    if (isSuccess && requestSchema !== undefined && !isValid(requestSchema, sent ?? {}))
      return [`${where}: request ${text}`]
    for (const [name, header] of Object.entries(response.headers ?? {})) {
      const value = headers.get(name)
      const schema =
        'schema' in header
          ? (header.schema as object)
          : { $ref: `${String((header as { $ref?: string }).$ref)}/schema` }
      if (value !== null && !isValid(schema, value)) return [`${where}: header ${name} ${value}`]
    }
    const setsCookies = isSuccess && headers.getSetCookie().length > 0
    if (setsCookies && response.headers?.['Set-Cookie'] === undefined) return [`${where}: no Set-Cookie`]
    if (text === '') return []
    const type = (headers.get('content-type') ?? '').split(';')[0]!
    const schema = response.content?.[type]?.schema
    if (schema === undefined) return [`${where}: no content of ${type}`]
    const value: unknown = type.endsWith('json') ? JSON.parse(text) : text
    return isValid(schema, value) ? [] : [`${where}: ${text} ${JSON.stringify(ajv.errors)}`]
  })
  return faults
}

function findOperation(document: OpenApiDocument, method: string, path: string): Operation | undefined {
  const candidates = listOperations(document).filter((operation) => {
    const pattern = operation.path.replaceAll(/\{\w+\}/g, '[^/]+')
    return operation.method === method.toLowerCase() && new RegExp(`^${pattern}$`).test(path)
  })
  // A path without parameters comes before one with them.
  return (candidates.find((candidate) => candidate.path === path) ?? candidates[0])?.operation
}

/** Returns the operations of a document without a recorded success, or without any exchange if they only refuse. */
function findUntouched(document: OpenApiDocument, exchanges: readonly Exchange[]): string[] {
  const touched = exchanges.map(({ method, path, status }) => {
    const operation = findOperation(document, method, path)
    const refusesAlways = Object.keys(operation?.responses ?? {}).every((described) => Number(described) >= 400)
    return status < 400 || refusesAlways ? operation?.operationId : undefined
  })
  return listOperations(document).flatMap(({ operation: { operationId } }) =>
    touched.includes(operationId) ? [] : [operationId]
  )
}

const servers = { auth: '', relay: '', vault: '', cookies: '' }
const closing: (() => Promise<void>)[] = []
const exchanges: Exchange[] = []

/** `fetch` that records requests and responses. */
const recordingFetch: typeof fetch = async (input, init = {}) => {
  const response = await fetch(input, init)
  const copy = response.clone()
  const sent: unknown = typeof init.body === 'string' && init.body.endsWith('}') ? JSON.parse(init.body) : undefined
  const { method = 'GET' } = init
  const { pathname: path } = new URL(response.url)
  if (method !== 'OPTIONS')
    exchanges.push({ method, path, sent, status: copy.status, headers: copy.headers, text: await copy.text() })
  return response
}

beforeAll(async () => {
  const machines = { RESOURCES: ORDERS, MACHINE_LOGIN: 'true' }
  const [auth, cookies, vault, relay] = [
    await testAuthServer(machines),
    await testAuthServer({ ...machines, USE_COOKIES: 'true' }),
    await testVault(),
    await startTestRelay()
  ]
  closing.push(
    () => vault.close(),
    () => relay.end()
  )
  servers.auth = await serving(auth.listener)
  servers.cookies = await serving(cookies.listener)
  servers.vault = await serving(vault.listener)
  servers.relay = await serving(relay.listener)
}, 30_000)

afterAll(async () => {
  closeServices()
  await Promise.all(closing.map((close) => close()))
})

type Send = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Response>

/** Creates a function that records requests to one server. A body is sent as JSON, unless it is text or a form. */
const sendTo =
  (origin: string): Send =>
  (method, path, body, headers = {}) => {
    const isForm = body === undefined || body instanceof URLSearchParams
    const text = isForm || typeof body === 'string' ? body : JSON.stringify(body)
    const type = isForm ? {} : { 'Content-Type': 'application/json' }
    return recordingFetch(origin + path, { method, headers: { ...type, ...headers }, ...(text && { body: text }) })
  }

const readJson = async (answer: Response): Promise<Record<string, string>> =>
  (await answer.json()) as Record<string, string>

/** Returns the headers with the tokens of a login, and the body that refreshes them. */
async function readTokens(login: Response) {
  const cookies = login.headers.getSetCookie().map((cookie) => cookie.split(';')[0])
  if (cookies.length > 0) return { user: { Cookie: cookies.join('; ') }, body: {} }
  const { accessToken = '', refreshToken = '' } = await readJson(login)
  return { user: { Authorization: `DIDAuth ${accessToken}` }, body: { refreshToken } }
}

const LOGIN_PATHS = ['/request-signup', '/signup', '/request-auth', '/auth', '/refresh-token', '/logout']
const FORMATS = ['*/*', 'application/problem+json']
const COMMON_PATHS = ['/health', '/ready', '/openapi.json']
const FOREIGN = { Origin: 'https://other.example', 'Sec-Fetch-Site': 'cross-site' }

/** Sends every request that auth and vault have in common, and refused ones. @returns headers with a user's tokens */
async function sendLogins(send: Send, domain: string): Promise<Record<string, string>> {
  const { did, personalSign } = createNumberedWallet(5)
  const enter = async (flow: 'auth' | 'signup') => {
    await send('GET', `/request-${flow}/${did}`)
    const { challenge = '' } = await readJson(await send('POST', `/request-${flow}`, { did }))
    return readTokens(await send('POST', `/${flow}`, { did, sig: personalSign(createLoginText(domain, challenge)) }))
  }
  const signedUp = await enter('signup')
  const refreshed = await readTokens(await send('POST', '/refresh-token', signedUp.body, signedUp.user))
  await send('POST', '/logout', {}, refreshed.user)
  for (const Accept of FORMATS) {
    for (const path of LOGIN_PATHS) {
      for (const body of [{}, '{"did":', { did: 'x'.repeat(1_048_576) }]) await send('POST', path, body, { Accept })
      await send('POST', path, {}, { Accept, ...FOREIGN })
    }
    await send('GET', '/request-auth/x', undefined, { Accept })
  }
  const { user } = await enter('auth')
  for (const path of [...COMMON_PATHS, '/session', '/.well-known/did-auth.json'])
    await send('GET', path, undefined, user)
  return user
}

/** Sends every request that only the auth server has, and refused ones. */
async function sendToAuth(send: Send, user: Record<string, string>): Promise<void> {
  const { address, personalSign } = createNumberedWallet(6)
  await send('GET', '/siwe/nonce')
  const { nonce = '' } = await readJson(await send('POST', '/siwe/nonce'))
  const site = { domain: 'auth.example', uri: 'https://auth.example' }
  const message = createSiweText({ address: address as `0x${string}` }, nonce, site)
  const login = await send('POST', '/siwe/verify', { message, signature: personalSign(message) })
  await send('POST', '/siwe/logout', {}, (await readTokens(login)).user)

  const machine = createMachine(1)
  const assertion = machine.assert({ aud: 'https://auth.example', exp: systemClock.nowSeconds() + 60 })
  for (const fields of [{}, {}, { resource: 'x' }, { grant_type: 'x' }, { grant_type: '' }])
    await send('POST', '/token', new URLSearchParams(createForm(assertion, fields)))
  for (const path of ['/token', '/.well-known/oauth-authorization-server', '/.well-known/jwks.json', '/me'])
    await send('GET', path, undefined, user)

  const list = '/.well-known/ended-sessions'
  const { headers } = await send('GET', list)
  await send('GET', list, undefined, { 'If-None-Match': headers.get('etag')! })
  await send('POST', '/resource-token', { resource: ORDERS }, user)
  const sessions = (await (await send('GET', '/sessions', undefined, user)).json()) as [{ sessionId: string }]
  for (const Accept of FORMATS) {
    const stranger = { Accept, Authorization: 'DIDAuth x.y.z' }
    await send('POST', '/siwe/verify', {}, { Accept })
    await send('POST', '/resource-token', { resource: 'x' }, { ...user, Accept })
    await send('DELETE', '/sessions/AAAA', undefined, { ...user, Accept })
    for (const path of ['/me', '/sessions', `${list}?after=soon`]) await send('GET', path, undefined, stranger)
  }
  await send('DELETE', `/sessions/${sessions[0].sessionId}`, undefined, user)
}

/** Expects that the recorded exchanges follow a document, and touch all its operations. */
function expectDescribed(document: OpenApiDocument): void {
  expect(findContradictions(document, exchanges)).toEqual([])
  expect(findUntouched(document, exchanges)).toEqual([])
}

beforeEach(() => void (exchanges.length = 0))

describe('recorded exchanges', () => {
  it.each(['auth', 'cookies'] as const)(
    'match the document of the auth server, with all operations (%s)',
    async (name) => {
      const send = sendTo(servers[name])
      await sendToAuth(send, await sendLogins(send, 'auth.example'))
      expectDescribed(documents.auth)
    }
  )

  it('match the document of the relay, with all operations', async () => {
    const send = sendTo(servers.relay)
    const wallet = createNumberedWallet(6)
    const requestChallenge = async () =>
      (await readJson(await send('POST', '/request-auth', { did: wallet.did }))).challenge!
    const jwt = loginCredential(wallet, await requestChallenge())
    const { token: Authorization = '' } = await readJson(await send('POST', '/auth', { jwt }))
    const { cid = '' } = await readJson(await send('POST', '/file', { file: 'Hello' }, { Authorization }))
    const sig = wallet.personalSign(createLoginText('relay.example', await requestChallenge()))
    await send('POST', '/auth', { did: wallet.did, sig })
    for (const path of COMMON_PATHS) await send('GET', path)
    for (const Accept of FORMATS) {
      const user = { Authorization, Accept }
      for (const path of [`/file/${cid}`, `/file/${cid.slice(0, -1)}`]) await send('GET', path, undefined, user)
      await send('GET', `/file/${cid}`, undefined, { Accept })
      await send('POST', '/request-auth', {}, user)
      await send('POST', '/auth', { jwt }, user)
      await send('POST', '/file', { file: 7 }, user)
    }
    expectDescribed(documents.relay)
  })

  it('match the document of the vault, with all operations', async () => {
    const send = sendTo(servers.vault)
    const user = await sendLogins(send, 'vault.example')
    const ask = (method: string, path: string, content?: unknown, headers: Record<string, string> = {}) =>
      send(method, path, content === undefined ? undefined : { content }, { ...user, ...headers })
    const { did } = createNumberedWallet(5)
    const { id = '' } = await readJson(await ask('POST', '/notes', 'Milk'))
    await ask('PUT', `/notes/${id}`, 'Bread')
    await ask('PUT', '/notes', 'Oat milk')
    for (const path of ['/keys', '/storage', '/backup']) await ask('GET', path)
    const { headers } = await ask('GET', `/${did}/notes`)
    await ask('GET', `/${did}/notes`, undefined, { 'If-None-Match': headers.get('etag')! })
    await ask('PUT', '/notes', 'Late', { 'If-Match': '"other"' })
    await ask('PUT', '/notes', 7)
    await ask('PUT', '/auth', 'reserved')
    await ask('DELETE', `/notes/${id}`)
    await ask('DELETE', '/notes')
    await ask('DELETE', '/notes', undefined, { Authorization: 'DIDAuth x.y.z', Accept: 'application/problem+json' })
    expectDescribed(documents.vault)
  })

  it('are reported if they contradict the document or leave an operation out', async () => {
    const { text, headers } = await post(`${servers.auth}/request-auth`, { did: createNumberedWallet(1).did })
    const validExchange: Exchange = {
      method: 'POST',
      path: '/request-auth',
      sent: { did: createNumberedWallet(1).did },
      status: 200,
      headers,
      text
    }
    const invalidExchanges = [
      { ...validExchange, text: '{"challenge":7}' },
      { ...validExchange, sent: {} },
      { ...validExchange, status: 418 },
      { ...validExchange, path: '/other' },
      { ...validExchange, headers: new Headers({ 'Content-Type': 'text/html' }) },
      {
        ...validExchange,
        status: 401,
        text: '{"code":"ERR_OTHER"}',
        headers: new Headers({ 'Content-Type': 'application/problem+json' })
      }
    ]
    expect(findContradictions(documents.auth, [validExchange])).toEqual([])
    expect(invalidExchanges.map((exchange) => findContradictions(documents.auth, [exchange]).length)).toEqual(
      invalidExchanges.map(() => 1)
    )
    const untouched = findUntouched(documents.auth, [validExchange, { ...validExchange, path: '/auth', status: 401 }])
    expect(untouched).toEqual(expect.arrayContaining(['logIn', 'siweNonce']))
    expect(untouched).not.toContain('requestLogin')
  })
})
