import { describe, expect, it } from '@jest/globals'
import {
  acceptedLoginDomains,
  loginMessage,
  MAX_LOGIN_DOMAINS,
  signUpMessages
} from '../../src/protocol/login-message.js'
import { parseHttpUrl, parseUrl } from '../../src/protocol/parse-url.js'

describe('loginMessage', () => {
  it('returns the two lines of the specification, without a final line feed', () =>
    expect(loginMessage('service.example', 'c4a11e')).toBe('Login to service.example\nVerification code: c4a11e'))

  it('starts with URL: in the dialect of that name, and is otherwise equal', () => {
    expect(loginMessage('service.example', 'c4a11e', 'url')).toBe('URL: service.example\nVerification code: c4a11e')
    expect(signUpMessages('service.example', 'c4a11e', ['a.b.c'], 'url')).toEqual([
      'URL: service.example\nVerification code: c4a11e\nMy credentials are: a.b.c'
    ])
  })
})

describe('signUpMessages', () => {
  it('returns one message with three lines if there are credentials, joined by commas', () =>
    expect(signUpMessages('service.example', 'c4a11e', ['a.b.c', 'd.e.f'])).toEqual([
      'Login to service.example\nVerification code: c4a11e\nMy credentials are: a.b.c,d.e.f'
    ]))

  it('returns four messages without credentials: no third line, two forms of its prefix, an empty line', () =>
    expect(signUpMessages('service.example', 'c4a11e', [])).toEqual([
      'Login to service.example\nVerification code: c4a11e',
      'Login to service.example\nVerification code: c4a11e\nMy credentials are: ',
      'Login to service.example\nVerification code: c4a11e\nMy credentials are:',
      'Login to service.example\nVerification code: c4a11e\n'
    ]))
})

describe('acceptedLoginDomains', () => {
  it.each([
    ['the host and the URL itself', 'https://service.example', [], ['service.example', 'https://service.example']],
    [
      'the host with its port first, then without',
      'https://service.example:8443/app',
      [],
      ['service.example:8443', 'service.example', 'https://service.example:8443/app']
    ],
    ['no default port', 'https://service.example:443', [], ['service.example', 'https://service.example:443']],
    ['the host in lower case', 'https://Service.Example', [], ['service.example', 'https://Service.Example']],
    ['a URI that is no URL, alone', 'urn:service:7', [], ['urn:service:7']],
    ['a bare name, alone', 'service.example', [], ['service.example']],
    ['a URI of another scheme, alone', 'ftp://service.example', [], ['ftp://service.example']],
    [
      'further domains behind',
      'https://service.example',
      ['app.example', 'service.example'],
      ['service.example', 'https://service.example', 'app.example']
    ]
  ])('returns %s', (_name, serviceUrl, extra, domains) =>
    expect(acceptedLoginDomains(serviceUrl, extra)).toEqual(domains)
  )

  it('stays within the limit for a sign-up with 24 recoveries', () => expect(MAX_LOGIN_DOMAINS).toBe(6))
})

describe('parseHttpUrl', () => {
  it.each(['http://a.example', 'https://a.example/b', 'HTTPS://A.example'])('parses %s', (text) =>
    expect(parseHttpUrl(text)).toBeInstanceOf(URL)
  )

  it.each(['a.example', '', 'ftp://a.example', 'https:', 'http://', 'javascript:alert(1)', '/a'])(
    'returns undefined for %j',
    (text) => expect(parseHttpUrl(text)).toBeUndefined()
  )
})

// Cause: URL.canParse of Node 20 returns another result for ü after it is optimized.
describe('parseUrl', () => {
  it('parses a host with an umlaut the thousandth time as the first time', () => {
    const origins = new Set(Array.from({ length: 20_000 }, () => parseUrl('https://münchen.example')?.origin))
    expect([...origins]).toEqual(['https://xn--mnchen-3ya.example'])
  })

  it('returns undefined for an invalid URL', () => expect(parseUrl('no url')).toBeUndefined())
})
