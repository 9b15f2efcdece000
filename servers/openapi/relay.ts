import {
  exampleCid,
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

const text: Part = { type: 'string' }
const challenge: Part = { type: 'string', pattern: '^[0-9a-f]{128}$', examples: ['5f'.repeat(64)] }
const address: Part = { type: 'string', pattern: '^relay://baf[a-z2-7]+$', examples: [`relay://${exampleCid}`] }
const relayGuard: readonly Part[] = [{ relayToken: [] }]
const RELAY_GUARDED = [
  'ERR_ACCESS_TOKEN_MISSING',
  'ERR_ACCESS_TOKEN',
  'ERR_ACCESS_TOKEN_EXPIRED',
  'ERR_TOO_MANY_REQUESTS'
] as const
const BODY = ['ERR_JSON', 'ERR_TOO_LARGE', 'ERR_REQUEST_TIMEOUT'] as const

/** The relay, whose login is one of its own. */
export const relayDocument = openApiDocument(
  'express-did-auth: relay',
  'Keeps a text for some days behind relay://<cid>.',
  {
    '/request-auth': {
      post: {
        operationId: 'requestLogin',
        summary: 'Asks for a challenge',
        requestBody: jsonBody(object({ did: schemaRef('Did') })),
        responses: {
          '200': jsonAnswer('A challenge of 64 bytes', object({ challenge }), {
            'Challenge-Expires-In': headerRef('ChallengeExpiresIn')
          }),
          ...refusals('ERR_INVALID_REQUEST', ...BODY)
        }
      }
    },
    '/auth': {
      post: {
        operationId: 'logIn',
        summary: 'Exchanges a credential that holds the challenge, or a signature of the login message, for a token',
        requestBody: jsonBody({
          oneOf: [
            object({ jwt: schemaRef('Jwt') }),
            object({ did: schemaRef('Did'), sig: schemaRef('Signature'), challenge }, ['challenge'])
          ]
        }),
        responses: {
          '200': jsonAnswer('A token', object({ token: schemaRef('Jwt') })),
          ...refusals(
            'ERR_INVALID_REQUEST',
            'ERR_CREDENTIAL',
            'ERR_CREDENTIAL_EXPIRED',
            'ERR_SIGNATURE',
            'ERR_DID_UNSUPPORTED',
            'ERR_CHALLENGE',
            'ERR_CHALLENGE_EXPIRED',
            'ERR_CHALLENGE_USED',
            ...BODY
          )
        }
      }
    },
    '/file': {
      post: {
        operationId: 'postFile',
        summary: 'Stores a text',
        security: relayGuard,
        requestBody: jsonBody(object({ file: text })),
        responses: {
          '200': jsonAnswer('Its address', object({ url: address, cid: schemaRef('Cid') }), {
            'File-Expires-In': headerRef('FileExpiresIn'),
            'Pin-Status': headerRef('PinStatus')
          }),
          ...refusals(...RELAY_GUARDED, ...CONTENT)
        }
      }
    },
    '/file/{cid}': {
      get: {
        operationId: 'getFile',
        summary: 'Reads a text',
        security: relayGuard,
        parameters: [pathParameter('cid', schemaRef('Cid'))],
        responses: {
          '200': jsonAnswer('The text', object({ file: text })),
          ...refusals(...RELAY_GUARDED, 'ERR_NOT_FOUND', 'ERR_PATH', 'ERR_TAKEN_DOWN', ...FROM_NODE)
        }
      }
    }
  },
  {
    relayToken: { type: 'apiKey', in: 'header', name: 'Authorization', description: 'the token, bare or after DIDAuth' }
  }
)
