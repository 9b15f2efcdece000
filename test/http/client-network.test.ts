import { describe, expect, it } from '@jest/globals'
import { clientNetwork, countedNetworks } from '../../src/http/client-network.js'

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

describe('countedNetworks', () => {
  it('are the /64 of an IPv6 address, and its /48 with 16 times the budget', () => {
    expect(countedNetworks('2001:db8:1:2::3')).toEqual([
      { network: '2001:db8:1:2::/64', factor: 1 },
      { network: '2001:db8:1::/48', factor: 16 }
    ])
  })

  it.each(['192.0.2.1', '::ffff:192.0.2.1', '64:ff9b::192.0.2.1'])('are one for %s, an address of IPv4', (address) => {
    expect(countedNetworks(address)).toEqual([{ network: '192.0.2.1', factor: 1 }])
  })
})
