import { defaultPaths } from 'express-did-auth'
import { headerRef, jsonAnswer, jsonBody, object, schemaRef, tooLargeHeaders, type Part } from './document.js'
import { refusals } from './refusals.js'

/** A path with the DID at its end. */
const withDid = (path: string): string => `${path}/{did}`

const tokens = {
  ...jsonAnswer(
    'Tokens; in cookie mode no content, and the cookies `authorization` and `refresh-token`',
    object({ accessToken: schemaRef('Jwt'), refreshToken: { type: 'string' } }),
    {
      'Set-Cookie': headerRef('SetCookie'),
      'Idempotent-Replayed': { description: 'a repeat of a refresh whose answer was lost', schema: { const: 'true' } }
    }
  )
}

const proof = object(
  {
    did: schemaRef('Did'),
    sig: schemaRef('Signature'),
    credentials: { type: 'array', items: schemaRef('Jwt'), maxItems: 20 },
    claims: { type: 'array', items: { type: 'object' } }
  },
  ['credentials', 'claims']
)

const bothForms = { oneOf: [proof, object({ response: proof })] }
export const sessionId = { type: 'string', minLength: 1 }

/** What a page of another site, and a request that is none, receive on every route that changes something. */
const UNSAFE = ['ERR_CROSS_ORIGIN', 'ERR_JSON', 'ERR_TOO_LARGE', 'ERR_REQUEST_TIMEOUT'] as const
const PROOF = [
  'ERR_REQUEST',
  'ERR_DID',
  'ERR_DID_UNSUPPORTED',
  'ERR_SIGNATURE',
  'ERR_CHALLENGE',
  'ERR_CHALLENGE_EXPIRED',
  'ERR_CHALLENGE_USED',
  'ERR_BUSINESS_LOGIC'
] as const
const OUTAGES = ['ERR_SIGNER', 'ERR_BUSINESS_LOGIC_TIMEOUT'] as const
const DISCLOSURE = [
  'ERR_CREDENTIAL',
  'ERR_CREDENTIAL_EXPIRED',
  'ERR_CREDENTIAL_ISSUER',
  'ERR_DISCLOSURE_MISSING',
  'ERR_RESOLVER'
] as const

/** Refusals of a route behind the middleware. */
export const GUARDED = [
  'ERR_ACCESS_TOKEN_MISSING',
  'ERR_ACCESS_TOKEN',
  'ERR_ACCESS_TOKEN_EXPIRED',
  'ERR_SESSION_ENDED',
  'ERR_DUPLICATE_COOKIE',
  'ERR_TOO_MANY_REQUESTS',
  'ERR_SIGNER'
] as const

/** The access token in a header, or in a cookie. */
export const guarded: readonly Part[] = [{ accessToken: [] }, { accessHeader: [] }, { accessCookie: [] }]

export const loginSecurity: Part = {
  accessToken: { type: 'http', scheme: 'DIDAuth', description: 'Authorization: DIDAuth <access token>' },
  accessHeader: {
    type: 'apiKey',
    in: 'header',
    name: 'Authorization',
    description: 'the same, for tools that know no scheme but Basic and Bearer: the value is DIDAuth <access token>'
  },
  accessCookie: {
    type: 'apiKey',
    in: 'cookie',
    name: 'authorization',
    description: 'with USE_COOKIES; COOKIE_PREFIX goes before the name'
  },
  refreshCookie: {
    type: 'apiKey',
    in: 'cookie',
    name: 'refresh-token',
    description: 'with USE_COOKIES; COOKIE_PREFIX goes before the name'
  }
}

const didParameter = { name: 'did', in: 'path', required: true, schema: schemaRef('Did') }

function challengeRoutes(path: string, flow: string, answer: Part): Record<string, Part> {
  const responses = {
    '200': jsonAnswer('A challenge', answer, { 'Challenge-Expires-In': headerRef('ChallengeExpiresIn') }),
    ...refusals('ERR_DID', 'ERR_TOO_MANY_REQUESTS', 'ERR_SIGNER', ...UNSAFE)
  }
  const summary = `Asks for the challenge of a ${flow}`
  return {
    [path]: {
      post: {
        operationId: `request${flow}`,
        summary,
        requestBody: jsonBody(object({ did: schemaRef('Did') })),
        responses
      }
    },
    [withDid(path)]: { get: { operationId: `request${flow}ByPath`, summary, parameters: [didParameter], responses } }
  }
}

const challenge = { type: 'string', pattern: '^[0-9a-f]{64}$', examples: ['5f'.repeat(32)] }

/** The routes of the library, at their default paths. */
export const loginPaths: Record<string, Part> = {
  ...challengeRoutes(defaultPaths.requestSignup, 'SignUp', object({ challenge, sdr: schemaRef('Jwt') }, ['sdr'])),
  ...challengeRoutes(defaultPaths.requestAuth, 'Login', object({ challenge })),
  [defaultPaths.signup]: {
    post: {
      operationId: 'signUp',
      summary: 'Signs up with a signed challenge, and with credentials where the sdr asks for them',
      requestBody: jsonBody(bothForms),
      responses: { '200': tokens, ...refusals(...PROOF, ...DISCLOSURE, 'ERR_TOO_MANY_REQUESTS', ...OUTAGES, ...UNSAFE) }
    }
  },
  [defaultPaths.auth]: {
    post: {
      operationId: 'logIn',
      summary: 'Logs in with a signed challenge',
      requestBody: jsonBody(bothForms),
      responses: { '200': tokens, ...refusals(...PROOF, 'ERR_TOO_MANY_REQUESTS', ...OUTAGES, ...UNSAFE) }
    }
  },
  [defaultPaths.refreshToken]: {
    post: {
      operationId: 'refreshToken',
      summary: 'Exchanges a refresh token, once, for a new pair',
      security: [{}, { refreshCookie: [] }],
      parameters: [
        {
          name: 'Idempotency-Key',
          in: 'header',
          schema: { type: 'string', pattern: '^"?[A-Za-z0-9_-]{22,128}"?$' },
          description: 'makes a repeat of this request safe'
        }
      ],
      requestBody: {
        content: { 'application/json': { schema: object({ refreshToken: { type: 'string' } }, ['refreshToken']) } }
      },
      responses: {
        '200': tokens,
        ...refusals(
          'ERR_REFRESH_TOKEN',
          'ERR_REFRESH_TOKEN_REUSED',
          'ERR_BUSINESS_LOGIC',
          'ERR_DUPLICATE_COOKIE',
          'ERR_IDEMPOTENCY_KEY',
          ...OUTAGES,
          ...UNSAFE
        )
      }
    }
  },
  [defaultPaths.logout]: {
    post: {
      operationId: 'logOut',
      summary: 'Ends the session of the token: its refresh token is refused from then on',
      security: [...guarded, { refreshCookie: [] }, {}],
      requestBody: {
        content: { 'application/json': { schema: object({ refreshToken: { type: 'string' } }, ['refreshToken']) } }
      },
      responses: {
        '200': {
          description: 'Logged out; no content. In cookie mode both cookies are cleared',
          headers: { 'Set-Cookie': headerRef('SetCookie') }
        },
        ...refusals(...GUARDED, 'ERR_REFRESH_TOKEN', ...UNSAFE)
      }
    }
  }
}

/** The own session, which pages poll. */
export const sessionRoute: Part = {
  get: {
    operationId: 'session',
    summary: 'The session of the request, or an empty object',
    security: [...guarded, { refreshCookie: [] }, {}],
    responses: {
      '200': jsonAnswer('The session, or nothing', {
        oneOf: [
          object(
            {
              did: schemaRef('Did'),
              sessionId,
              expiresAt: schemaRef('Seconds'),
              expiresInSeconds: { type: 'integer', minimum: 0 }
            },
            ['sessionId']
          ),
          { type: 'object', maxProperties: 0 }
        ]
      }),
      ...tooLargeHeaders,
      ...refusals('ERR_SIGNER')
    }
  }
}
