import { describe, expect, it } from '@jest/globals'
import { routeFinder, type Route } from '../../src/http/find-route.js'

const route = (method: Route['method'], path: string, hasParameter?: true): Route => ({
  method,
  path,
  answer: () => Promise.resolve(),
  ...(hasParameter && { hasParameter })
})
const login = route('POST', '/auth')
const challenge = route('GET', '/request-auth', true)
const asked = route('POST', '/Challenge/')
const sessions = route('GET', '/sessions')
const session = route('DELETE', '/sessions', true)
const find = routeFinder([login, challenge, asked, sessions, session])

/** The route of a request such as `POST /auth`, and its parameter, in an application with some settings. */
function routeOf(request: string, settings: readonly string[] = []) {
  const [method = '', path = ''] = request.split(' ')
  const found = find({ method, path, app: { enabled: (name: string) => settings.includes(name) } as never })
  return [found?.answer, found?.parameter]
}

describe('routeFinder', () => {
  it.each<[string, Route, string?]>([
    ['POST /auth', login],
    ['POST /AUTH', login],
    ['POST /Auth/', login],
    ['POST /challenge', asked],
    ['POST /Challenge/', asked],
    ['GET /sessions/', sessions],
    ['HEAD /sessions', sessions],
    ['GET /request-auth/did:a:B', challenge, 'did:a:B'],
    ['HEAD /Request-Auth/did:a:B/', challenge, 'did:a:B'],
    ['GET /request-auth/did%3Aa%2Fb', challenge, 'did:a/b'],
    ['GET /request-auth/%E0%A4%A', challenge],
    ['DELETE /SESSIONS/a/', session, 'a']
  ])('finds that of %s, as Express does', (request, { answer }, ...[parameter]) => {
    expect(routeOf(request)).toEqual([answer, parameter])
  })

  it.each([
    ...['GET /', 'GET /auth', 'PUT /auth', 'POST /authx', 'POST /auth//', 'POST /auth/%', 'POST /request-auth/a'],
    ...['GET /request-auth', 'GET /request-auth/', 'GET /request-auth/a/b', 'DELETE /sessions', 'DELETE /sessions/a/b']
  ])('leaves %s to the application', (request) => {
    expect(routeOf(request)).toEqual([undefined, undefined])
  })

  it.each([
    ['POST /Auth', 'case sensitive routing', undefined],
    ['POST /AUTH/', 'case sensitive routing', undefined],
    ['GET /Request-Auth/a', 'case sensitive routing', undefined],
    ['POST /challenge', 'case sensitive routing', undefined],
    ['POST /Challenge', 'case sensitive routing', asked],
    ['GET /request-auth/DID/', 'case sensitive routing', challenge],
    ['POST /auth/', 'strict routing', undefined],
    ['POST /Challenge', 'strict routing', undefined],
    ['GET /request-auth/a/', 'strict routing', undefined],
    ['POST /AUTH', 'strict routing', login],
    ['POST /CHALLENGE/', 'strict routing', asked]
  ])('of %s, in an application with %s: %#', (request, setting, expected) => {
    expect(routeOf(request, [setting])[0]).toBe(expected?.answer)
  })
})
