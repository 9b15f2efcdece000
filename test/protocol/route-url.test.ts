import { describe, expect, it } from '@jest/globals'
import { createRouteUrl } from '../../src/protocol/parse-url.js'

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
