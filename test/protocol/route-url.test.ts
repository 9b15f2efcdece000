import { describe, expect, it } from '@jest/globals'
import { createRouteUrl, isLoopbackHost, isSecureUrl } from '../../src/protocol/parse-url.js'

describe('a URL that nobody else can read', () => {
  it.each(['https://a.example', 'http://localhost:3000', 'http://127.0.0.1', 'http://127.8.9.1', 'http://[::1]:1'])(
    'is %s',
    (url) => expect(isSecureUrl(url)).toBe(true)
  )

  // A server's resolver may ask the network for a name below `localhost`.
  it.each(['http://x.localhost', 'http://localhost.', 'http://localhost.example', 'http://128.0.0.1', 'http://[::2]'])(
    'is not %s',
    (url) => expect(isSecureUrl(url)).toBe(false)
  )

  it('differs from what a browser calls this machine', () => expect(isLoopbackHost('x.localhost')).toBe(true))
})

describe('createRouteUrl', () => {
  it.each([
    ['https://service.example', '', '/signup', 'https://service.example/signup'],
    ['https://service.example/', '', '/signup', 'https://service.example/signup'],
    ['https://service.example//', '', '/a/signup', 'https://service.example/a/signup'],
    ['https://service.example', '/api', '/signup', 'https://service.example/api/signup'],
    ['https://service.example/api', '/api', '/signup', 'https://service.example/api/signup'],
    ['https://service.example/api/', '/api', '/signup', 'https://service.example/api/signup'],
    ['https://service.example/behind/api', '/api', '/signup', 'https://service.example/behind/api/signup'],
    ['https://service.example/api', '/API', '/signup', 'https://service.example/api/signup'],
    ['https://service.example/myapi', '/api', '/signup', 'https://service.example/myapi/api/signup'],
    ['https://service.example/api/v1', '/api', '/signup', 'https://service.example/api/v1/api/signup'],
    ['https://api', '/api', '/signup', 'https://api/api/signup'],
    ['http://localhost:3000', '/a/b', '/signup', 'http://localhost:3000/a/b/signup']
  ])('joins %s, mounted at "%s", and %s to %s', (serviceUrl, mountPath, signupPath, url) =>
    expect(createRouteUrl(serviceUrl, mountPath, signupPath)).toBe(url)
  )

  it.each(['urn:example:service', 'service.example', 'ftp://service.example', 'x'])(
    'returns undefined for %s, which is not an http(s) URL',
    (serviceUrl) => expect(createRouteUrl(serviceUrl, '/api', '/signup')).toBeUndefined()
  )
})
