import { describe, expect, it } from '@jest/globals'
import { findSite } from '../../../../servers/tools/doctor/site.js'

describe('findSite', () => {
  it.each([
    ['https://auth.example.com', 'https://example.com'],
    ['http://auth.example.com', 'http://example.com'],
    ['https://a.b.example.co.uk', 'https://example.co.uk'],
    ['https://t.co', 'https://t.co'],
    ['http://localhost:3000', 'http://localhost'],
    ['http://127.0.0.1:3000', 'http://127.0.0.1']
  ])('maps %s to %s', (origin, site) => expect(findSite(origin)).toBe(site))
})
