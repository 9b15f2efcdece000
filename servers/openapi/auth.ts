import { sessionPath, sessionsPath } from '../http/did-auth.js'
import { jsonAnswer, object, openApiDocument, pathParameter, schemaRef, type Part } from './document.js'
import { refusals } from './refusals.js'
import { GUARDED, guarded, loginPaths, loginSecurity, sessionId, sessionRoute } from './login.js'

const listed = object({
  sessionId,
  createdAt: schemaRef('Seconds'),
  refreshedAt: schemaRef('Seconds'),
  expiresAt: schemaRef('Seconds'),
  isCurrent: { type: 'boolean' }
})

const sessionsRoute: Part = {
  get: {
    operationId: 'sessions',
    summary: 'Active sessions of the user',
    security: guarded,
    responses: { '200': jsonAnswer('The list', { type: 'array', items: listed }), ...refusals(...GUARDED) }
  }
}

const oneSessionRoute: Part = {
  delete: {
    operationId: 'revokeSession',
    summary: 'Ends a session of the user',
    security: guarded,
    parameters: [pathParameter('sessionId', sessionId)],
    responses: {
      '200': { description: 'Ended; no content' },
      ...refusals(...GUARDED, 'ERR_SESSION_NOT_FOUND', 'ERR_CROSS_ORIGIN')
    }
  }
}

/** The auth server: the routes of the library, and one behind its middleware. */
export const authDocument = openApiDocument(
  'express-did-auth: auth',
  'Login with decentralized identifiers: a challenge, signed by the wallet.',
  {
    ...loginPaths,
    [sessionPath]: sessionRoute,
    [sessionsPath]: sessionsRoute,
    [`${sessionsPath}/{sessionId}`]: oneSessionRoute,
    '/me': {
      get: {
        operationId: 'me',
        summary: 'The DID of the user',
        security: guarded,
        responses: {
          '200': jsonAnswer('The user', object({ did: schemaRef('Did') })),
          ...refusals(...GUARDED, 'ERR_NOT_FOUND', 'ERR_PATH')
        }
      }
    }
  },
  loginSecurity
)
