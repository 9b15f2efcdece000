import type { RequestHandler } from 'express'

/** Part of an OpenAPI document. */
export type Part = Readonly<Record<string, unknown>>

/** What one server serves: `servers` is filled in by the server, which knows its URL. */
export interface OpenApiDocument {
  openapi: '3.1.0'
  info: Part
  tags?: readonly Part[]
  paths: Readonly<Record<string, Part>>
  security: readonly Part[]
  components: Part
}

/** Of the protocol on the wire, which outlives versions of the package. */
const WIRE_VERSION = '1.0.0'

export const exampleCid = 'bafkreiayl6g3gitr7ys7kyng7sjywlrgimdoymco3jiyab6rozecmoazne'

const schemas = {
  Did: {
    type: 'string',
    maxLength: 128,
    pattern: '^did:[a-z0-9]+:.+',
    examples: ['did:ethr:rsk:0x1a642f0e3c3af545e7acbd38b07251b3990914f1']
  },
  Signature: {
    type: 'string',
    pattern: '^0x[0-9a-fA-F]{130}$',
    description: 'personal_sign over the login message: r, s and v, with a low s'
  },
  Jwt: {
    type: 'string',
    pattern: String.raw`^[\w-]+\.[\w-]+\.[\w-]+$`,
    examples: ['eyJ0eXAiOiJKV1QifQ.e30.c2lnbmF0dXJl']
  },
  Cid: {
    type: 'string',
    pattern: '^baf[a-z2-7]+$',
    examples: [exampleCid]
  },
  Seconds: { type: 'integer', minimum: 0, description: 'seconds since the Unix epoch' },
  Problem: object({
    type: { const: 'about:blank' },
    title: { type: 'string' },
    status: { type: 'integer' },
    code: { type: 'string', pattern: '^ERR_[A-Z0-9_]+$' }
  })
}

const headers = {
  NoStore: { description: 'always no-store', schema: { const: 'no-store' } },
  ChallengeExpiresIn: {
    description: 'seconds for which the challenge is good',
    schema: { type: 'string', pattern: '^[0-9]+$', examples: ['300'] }
  },
  FileExpiresIn: {
    description: 'seconds for which the file stays, counted again when it is posted again',
    schema: { type: 'string', pattern: '^[0-9]+$', examples: ['604800'] }
  },
  PinStatus: {
    description: 'present while the IPFS node has not pinned the content yet',
    schema: { const: 'pending' }
  },
  ETag: { description: 'names the state of a list', schema: { type: 'string' } },
  SetCookie: { description: 'in cookie mode', schema: { type: 'string' } }
}

/** A document of one server. */
export function openApiDocument(
  title: string,
  description: string,
  paths: OpenApiDocument['paths'],
  securitySchemes: Part
): OpenApiDocument {
  const license = { name: 'MIT', identifier: 'MIT' }
  const own = {
    '/health': { get: healthOperation },
    '/ready': { get: readyOperation },
    '/openapi.json': { get: documentOperation }
  }
  return {
    openapi: '3.1.0',
    info: { title, description, version: WIRE_VERSION, license },
    paths: { ...paths, ...own },
    // What says nothing else is open.
    security: [],
    components: {
      schemas: referredTo('schemas', schemas, paths),
      headers: referredTo('headers', headers, { ...paths, ...own }),
      securitySchemes
    }
  }
}

/** The components that the operations of a document use. */
function referredTo(kind: 'schemas' | 'headers', components: Part, paths: Part): Part {
  const text = JSON.stringify(paths)
  return Object.fromEntries(
    Object.entries(components).filter(([name]) => text.includes(`"#/components/${kind}/${name}"`))
  )
}

/** `GET /openapi.json`. */
export function serveDocument(document: OpenApiDocument, serviceUrl: string): RequestHandler {
  const json = JSON.stringify({ ...document, servers: URL.canParse(serviceUrl) ? [{ url: serviceUrl }] : [] })
  return (_req, res) => {
    res.set('Cache-Control', 'no-cache').type('application/json').send(json)
  }
}

/** A parameter of a path. */
export function pathParameter(name: string, schema: Part): Part {
  return { name, in: 'path', required: true, schema }
}

export function schemaRef(name: keyof typeof schemas): Part {
  return { $ref: `#/components/schemas/${name}` }
}

export function headerRef(name: keyof typeof headers): Part {
  return { $ref: `#/components/headers/${name}` }
}

/** The schema of an object. Fields are required unless they are named as optional. */
export function object(properties: Part, optional: readonly string[] = []): Part {
  return { type: 'object', required: Object.keys(properties).filter((name) => !optional.includes(name)), properties }
}

/** The body of a request, in JSON. */
export function jsonBody(schema: Part): Part {
  return { required: true, content: { 'application/json': { schema } } }
}

/** A 200 (or another success) in JSON that no cache keeps. */
export function jsonAnswer(description: string, schema: Part, more: Part = {}): Part {
  return {
    description,
    headers: { 'Cache-Control': headerRef('NoStore'), ...more },
    content: { 'application/json': { schema } }
  }
}

/** What Node answers to every request whose headers are too large. */
export const tooLargeHeaders: Part = { '431': { description: 'The headers are too large' } }

const healthOperation = {
  operationId: 'health',
  summary: 'Whether the process is alive',
  responses: { '200': jsonAnswer('It is', object({ status: { const: 'ok' } })), ...tooLargeHeaders }
}

const readiness = object(
  {
    status: { enum: ['ready', 'not ready', 'draining'] },
    dependencies: { type: 'object', additionalProperties: { enum: ['ok', 'unavailable', 'wrong', 'none'] } },
    reasons: { type: 'object', additionalProperties: { type: 'string' } }
  },
  ['reasons']
)

const readyOperation = {
  operationId: 'ready',
  summary: 'Whether the server can be used, and the state of each dependency',
  responses: { '200': jsonAnswer('It can', readiness), '503': jsonAnswer('It cannot', readiness), ...tooLargeHeaders }
}

const documentOperation = {
  operationId: 'openApiDocument',
  summary: 'This document',
  responses: {
    '200': { description: 'OpenAPI 3.1', content: { 'application/json': { schema: { type: 'object' } } } },
    ...tooLargeHeaders
  }
}
