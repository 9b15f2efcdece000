import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { OpenApiDocument } from '../../../servers/openapi/document.js'
import { checkConformance } from '../../../servers/tools/conformance/command.js'
import { documents, listOperations, type Operation } from '../../support/fixtures/openapi.js'
import { loginCredential, startTestRelay } from '../../support/servers/relay-app.js'
import { logIn, post, closeServices, serving } from '../../support/servers/server-client.js'
import { testAuthServer } from '../../support/servers/test-app.js'
import { testVault } from '../../support/servers/vault-app.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'
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
  const [auth, cookies, vault, relay] = [
    await testAuthServer({ RESOURCES: ORDERS, MACHINE_LOGIN: 'true' }),
    await testAuthServer({ USE_COOKIES: 'true' }),
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

/** Records a login of a machine, and refusals of it. */
async function recordMachineLogins(origin: string): Promise<void> {
  const [machine, exp] = [createMachine(1), systemClock.nowSeconds() + 60]
  const send = (fields?: Record<string, string>) => {
    const body = new URLSearchParams(createForm(machine.assert({ aud: 'https://auth.example', exp }), fields))
    return recordingFetch(`${origin}/token`, { method: 'POST', body })
  }
  for (const fields of [{}, {}, { resource: 'x' }, { grant_type: 'x' }, { grant_type: '' }]) await send(fields)
  for (const path of ['/token', '/.well-known/oauth-authorization-server']) await recordingFetch(origin + path)
}

describe('recorded exchanges', () => {
  it.each(['auth', 'cookies'] as const)('match the document of the auth server (%s)', async (name) => {
    exchanges.length = 0
    const url = new URL(servers[name])
    await checkConformance({ url, protectedPath: '/me', fetch: recordingFetch })
    const tokens = name === 'auth' ? await logIn(servers.auth, createNumberedWallet(5), 'auth.example') : undefined
    const headers = { Authorization: `DIDAuth ${tokens?.accessToken ?? 'x.y.z'}`, Accept: 'application/problem+json' }
    for (const path of ['/session', '/sessions', '/health', '/ready'])
      await recordingFetch(`${url.origin}${path}`, { headers })
    await recordingFetch(`${url.origin}/sessions/AAAA`, { method: 'DELETE', headers })
    const list = `${url.origin}/.well-known/ended-sessions`
    const { headers: answered } = await recordingFetch(list)
    await recordingFetch(list, { headers: { 'If-None-Match': answered.get('etag')! } })
    await recordingFetch(`${list}?after=soon`, { headers })
    if (name === 'auth') await recordMachineLogins(url.origin)
    expect(exchanges.length).toBeGreaterThan(15)
    expect(findContradictions(documents.auth, exchanges)).toEqual([])
  })

  it('match the document of the relay', async () => {
    exchanges.length = 0
    const wallet = createNumberedWallet(6)
    const send = async (path: string, body: object, headers: Record<string, string> = {}) => {
      const allHeaders = { 'Content-Type': 'application/json', ...headers }
      const answer = await recordingFetch(servers.relay + path, {
        method: 'POST',
        headers: allHeaders,
        body: JSON.stringify(body)
      })
      return (await answer.json()) as Record<string, string>
    }
    const { challenge = '' } = await send('/request-auth', { did: wallet.did })
    const jwt = loginCredential(wallet, challenge)
    const { token = '' } = await send('/auth', { jwt })
    const { cid = '' } = await send('/file', { file: 'Hello' }, { Authorization: token })
    const second = await send('/request-auth', { did: wallet.did })
    const sig = wallet.personalSign(`Login to relay.example\nVerification code: ${second.challenge!}`)
    await send('/auth', { did: wallet.did, sig })
    for (const Accept of ['*/*', 'application/problem+json']) {
      await recordingFetch(`${servers.relay}/file/${cid}`, { headers: { Authorization: token, Accept } })
      await recordingFetch(`${servers.relay}/file/${cid.slice(0, -1)}`, { headers: { Authorization: token, Accept } })
      await recordingFetch(`${servers.relay}/file/${cid}`, { headers: { Accept } })
      for (const [path, body] of [
        ['/request-auth', '{}'],
        ['/auth', `{"jwt":"${jwt}"}`],
        ['/file', '{"file":7}']
      ] as const) {
        const headers = { 'Content-Type': 'application/json', Authorization: token, Accept }
        await recordingFetch(servers.relay + path, { method: 'POST', headers, body })
      }
    }
    expect(exchanges.length).toBeGreaterThan(15)
    expect(findContradictions(documents.relay, exchanges)).toEqual([])
  })

  it('match the document of the vault', async () => {
    exchanges.length = 0
    const wallet = createNumberedWallet(7)
    const { accessToken } = await logIn(servers.vault, wallet, 'vault.example')
    const user = { Authorization: `DIDAuth ${accessToken}`, 'Content-Type': 'application/json' }
    const ask = (method: string, path: string, content?: unknown, headers: Record<string, string> = {}) =>
      recordingFetch(servers.vault + path, {
        method,
        headers: { ...user, ...headers },
        ...(content !== undefined && { body: JSON.stringify({ content }) })
      })
    const { id } = (await (await ask('POST', '/notes', 'Milk')).json()) as { id: string }
    await ask('PUT', `/notes/${id}`, 'Bread')
    await ask('PUT', '/notes', 'Oat milk')
    for (const path of [`/${wallet.did}/notes`, '/keys', '/storage', '/backup', '/session']) await ask('GET', path)
    const { headers } = await recordingFetch(`${servers.vault}/${wallet.did}/notes`)
    await recordingFetch(`${servers.vault}/${wallet.did}/notes`, { headers: { 'If-None-Match': headers.get('etag')! } })
    await ask('PUT', '/notes', 'Late', { 'If-Match': '"other"' })
    await ask('PUT', '/notes', 7)
    await ask('PUT', '/auth', 'reserved')
    await ask('DELETE', `/notes/${id}`)
    await ask('DELETE', '/notes')
    await ask('DELETE', '/notes', undefined, { Authorization: 'DIDAuth x.y.z', Accept: 'application/problem+json' })
    expect(exchanges.length).toBeGreaterThan(15)
    await checkConformance({ url: new URL(servers.vault), protectedPath: '/storage', fetch: recordingFetch })
    expect(findContradictions(documents.vault, exchanges)).toEqual([])
  })

  it('are reported if they contradict the document', async () => {
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
  })
})
