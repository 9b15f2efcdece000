import { describe, expect, it, jest } from '@jest/globals'
import type { Request } from 'express'
import type { Logger } from 'express-did-auth'
import { callerFinder, clientNetwork } from '../../src/http/client-network.js'

describe('clientNetwork', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['::ffff:0909:0910', '9.9.9.16'],
    ['::FFFF:C000:201', '192.0.2.1'],
    ['0:0:0:0:0:ffff:c000:0201', '192.0.2.1'],
    ['0:0:0:0:0:FFFF:192.0.2.1', '192.0.2.1'],
    ['::fffe:c000:201', '0:0:0:0::/64'],
    ['1::ffff:c000:201', '1:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '192.0.2.1'],
    ['0064:FF9B:0:0:0:0:C000:0201', '192.0.2.1'],
    ['64:ff9b::', '0.0.0.0'],
    ['64:ff9b:0:0:1::192.0.2.1', '64:ff9b:0:0::/64'],
    ['64:ff9b:1::192.0.2.1', '64:ff9b:1:0::/64'],
    ['1:2:3:4:5:6:7::', '1:2:3:4::/64'],
    ['::2:3:4:5:6:7:8', '0:2:3:4::/64'],
    ['9.9.9.9:1234', '9.9.9.9'],
    ['[2001:db8:1:2::1]:443', '2001:db8:1:2::/64'],
    ['[2001:db8:1:2::1]', '2001:db8:1:2::/64'],
    ['[::ffff:9.9.9.9]:443', '9.9.9.9'],
    ['999.9.9.9:1234', '999.9.9.9'],
    ['unknown:80', 'unknown:80'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['', '']
  ])('of %s is %s', (address, network) => {
    expect(clientNetwork(address)).toBe(network)
  })

  it('of what is no address keeps no more than 45 characters, since a header may have said it', () => {
    expect(clientNetwork('x'.repeat(5000)).length).toBe(45)
  })
})

describe('callerFinder', () => {
  const trusted = new Set(['https://service.example', 'https://app.example'])
  const proxied = { 'x-forwarded-for': '192.0.2.9' }

  /** The caller of a request, and the warnings that came with it and with one more. */
  function callerOf(headers: Record<string, string>, ip = '192.0.2.1', trustProxy?: unknown) {
    const warn = jest.fn<Logger['warn']>()
    const find = callerFinder(trusted, { info: () => undefined, warn, error: () => undefined })
    const req = { headers, ip, app: { get: () => trustProxy }, socket: { destroyed: false } } as unknown as Request
    find(req)
    return { ...find(req), warnings: warn.mock.calls }
  }

  it('counts for the /64 of an IPv6 address, and its /48 with 16 times the budget', () => {
    expect(callerOf({}, '2001:db8:1:2::3')).toMatchObject({
      network: '2001:db8:1:2::/64',
      networks: [
        { network: '2001:db8:1:2::/64', factor: 1 },
        { network: '2001:db8:1::/48', factor: 16 }
      ]
    })
  })

  it.each(['192.0.2.1', '::ffff:192.0.2.1', '64:ff9b::192.0.2.1'])('counts %s, of IPv4, for one network', (address) => {
    expect(callerOf({}, address).networks).toEqual([{ network: '192.0.2.1', factor: 1 }])
  })

  it.each([
    [{ 'sec-fetch-site': 'cross-site' }],
    [{ 'sec-fetch-site': 'same-site' }],
    [{ 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
    [{ 'sec-fetch-site': 'cross-site', origin: 'null' }]
  ])('counts what a page of another site makes a browser send apart: %j', (headers) => {
    const { network, networks } = callerOf(headers)
    expect([network, networks]).toEqual(['192.0.2.1', [{ network: '192.0.2.1 foreign', factor: 1 }]])
  })

  it.each([
    [{ 'sec-fetch-site': 'same-origin' }],
    [{ 'sec-fetch-site': 'none' }],
    [{ 'sec-fetch-site': 'cross-site', origin: 'https://app.example' }],
    [{ 'sec-fetch-site': 'same-site', origin: 'https://service.example' }],
    [{}]
  ])('does not count as foreign: %j', (headers) => {
    expect(callerOf(headers as Record<string, string>).networks).toEqual([{ network: '192.0.2.1', factor: 1 }])
  })

  it.each([[undefined], [0], [false]])(
    'knows that users share an address with trust proxy %p, and warns once',
    (setting) => {
      const { isShared, warnings } = callerOf(proxied, '192.0.2.1', setting)
      expect([isShared, warnings]).toEqual([
        true,
        [
          [
            { event: 'trust-proxy-off' },
            "X-Forwarded-For seen, but the app's `trust proxy` is off: all callers share one address"
          ]
        ]
      ])
    }
  )

  it.each([[true], [1], ['loopback'], [() => true]])('believes a proxy with trust proxy %p', (setting) => {
    const { isShared, warnings } = callerOf(proxied, '192.0.2.1', setting)
    expect([isShared, warnings]).toEqual([false, []])
  })
})
