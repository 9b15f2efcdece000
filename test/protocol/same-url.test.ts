import { describe, expect, it } from '@jest/globals'
import { isSameUrl } from '../../src/protocol/parse-url.js'

describe('isSameUrl', () => {
  it.each([
    ['https://a.example', 'https://a.example/'],
    ['https://a.example/', 'HTTPS://A.example:443'],
    ['https://a.example/api', 'https://a.example/x/../api'],
    ['urn:service', 'urn:service'],
    ['did:web:A', 'did:web:A']
  ])('accepts %s and %s', (left, right) => expect(isSameUrl(left, right)).toBe(true))

  it.each([
    ['https://a.example/api', 'https://a.example/api/'],
    ['https://a.example', 'http://a.example'],
    ['https://a.example', 'https://a.example.evil.example'],
    ['https://a.example', 'https://a.example@evil.example'],
    ['https://a.example', 'https://a.example:444'],
    // Only http(s) URLs have several spellings here.
    ['urn:service', 'URN:service'],
    ['did:web:a', ' did:web:a'],
    ['https://a.example', undefined],
    ['https://a.example', ['https://a.example']]
  ])('refuses %s and %j', (left, right) => expect(isSameUrl(left, right)).toBe(false))
})
