import { authRoutes, sessionPath } from '../http/did-auth.js'
import {
  headerRef,
  jsonAnswer,
  jsonBody,
  object,
  openApiDocument,
  pathParameter,
  schemaRef,
  type Part
} from './document.js'
import { CONTENT, FROM_NODE, refusals } from './refusals.js'
import { GUARDED, guarded, loginPaths, loginSecurity, sessionRoute } from './login.js'

const text: Part = { type: 'string' }
const count: Part = { type: 'integer', minimum: 0 }
/** The names of the login's routes, whose answers are described there. */
const reserved = { enum: authRoutes.map((route) => route.slice(1)) }
const keySchema: Part = { type: 'string', minLength: 1, not: reserved, description: '1 to 512 bytes, percent-encoded' }
const key = pathParameter('key', keySchema)
/** Two templates that differ in names alone are one path to OpenAPI. */
const ofEntry = [pathParameter('didOrKey', keySchema), pathParameter('keyOrId', schemaRef('Cid'))]
const ofList = [
  pathParameter('didOrKey', schemaRef('Did')),
  pathParameter('keyOrId', { type: 'string', minLength: 1, description: 'the key, percent-encoded' })
]
const conditions: readonly Part[] = ['If-Match', 'If-None-Match'].map((name) => ({ name, in: 'header', schema: text }))
const WRITE = [
  'ERR_KEY',
  'ERR_RESERVED_KEY',
  'ERR_INVALID_REQUEST',
  'ERR_PRECONDITION',
  'ERR_PATH',
  'ERR_CROSS_ORIGIN',
  'ERR_STORAGE'
] as const
const written = { ETag: headerRef('ETag'), 'Pin-Status': headerRef('PinStatus') }

function writeOperation(operationId: string, summary: string, status: string, parameters: readonly Part[]): Part {
  const stored = {
    description: 'Its id',
    headers: written,
    content: { 'application/json': { schema: object({ id: schemaRef('Cid') }) } }
  }
  const responses = {
    [status]: stored,
    ...refusals(...GUARDED, ...WRITE, ...CONTENT.filter((code) => code !== 'ERR_STORAGE'))
  }
  return {
    operationId,
    summary,
    security: guarded,
    parameters: [...parameters, ...conditions],
    requestBody: jsonBody(object({ content: text })),
    responses
  }
}

function deleteOperation(operationId: string, summary: string, parameters: readonly Part[]): Part {
  const responses = {
    '200': { description: 'Deleted; no content', headers: written },
    ...refusals(...GUARDED, ...WRITE)
  }
  return { operationId, summary, security: guarded, parameters: [...parameters, ...conditions], responses }
}

function accountOperation(operationId: string, summary: string, schema: Part): Part {
  return {
    get: {
      operationId,
      summary,
      security: guarded,
      responses: { '200': jsonAnswer('The answer', schema), ...refusals(...GUARDED, ...FROM_NODE) }
    }
  }
}

const entries = (properties: Part): Part => ({ type: 'array', items: object(properties) })

/** The vault: the routes of the library, and content by DID and key. */
export const vaultDocument = openApiDocument(
  'express-did-auth: vault',
  'Keeps content by DID and key. Reads are open, writes are for the owner.',
  {
    ...loginPaths,
    [sessionPath]: sessionRoute,
    '/keys': accountOperation(
      'keys',
      'Keys of the user with their entries',
      object({ keys: entries({ key: text, entries: entries({ id: schemaRef('Cid'), size: count }) }) })
    ),
    '/storage': accountOperation(
      'storage',
      'What is used, and what is left',
      object({ used: count, available: count, usedEntries: count, availableEntries: count })
    ),
    '/backup': accountOperation(
      'backup',
      'Every entry with its content',
      object({ did: schemaRef('Did'), entries: entries({ key: text, id: schemaRef('Cid'), content: text }) })
    ),
    '/{didOrKey}/{keyOrId}': {
      get: {
        operationId: 'readKey',
        summary: 'All content under a key',
        parameters: [...ofList, { name: 'If-None-Match', in: 'header', schema: text }],
        responses: {
          '200': {
            description: 'The contents in the order of writing',
            headers: { ETag: headerRef('ETag') },
            content: { 'application/json': { schema: { type: 'array', items: text } } }
          },
          '304': { description: 'The list is that of If-None-Match', headers: { ETag: headerRef('ETag') } },
          ...refusals('ERR_PATH', 'ERR_NOT_FOUND', ...FROM_NODE)
        }
      },
      put: writeOperation('replaceEntry', 'Replaces one entry, or adds one', '200', ofEntry),
      delete: deleteOperation('deleteEntry', 'Deletes one entry', ofEntry)
    },
    '/{key}': {
      post: writeOperation('addEntry', 'Adds content under a key', '201', [key]),
      put: writeOperation('replaceKey', 'Replaces all content under a key', '200', [key]),
      delete: deleteOperation('deleteKey', 'Deletes all content under a key', [key])
    }
  },
  loginSecurity
)
