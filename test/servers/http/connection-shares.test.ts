import { describe, expect, it } from '@jest/globals'
import { EventEmitter } from 'node:events'
import { createServer, type Server } from 'node:http'
import { shareConnections } from '../../../servers/http/listen.js'

/** The members of a connection that its server uses. */
class Connection extends EventEmitter {
  destroyed = false
  constructor(readonly remoteAddress: string) {
    super()
  }
  destroy(): void {
    this.destroyed = true
    this.emit('close')
  }
}

/** Creates a server that receives connections only from the test. */
const createIdleServer = (): Server => createServer().removeAllListeners('connection')

/** Counts the open connections from these addresses at a server with a maximum of 8. */
function countOpen(perNetwork: boolean, addresses: readonly string[]): number {
  const server = createIdleServer()
  shareConnections(server, 8, perNetwork)
  const connections = addresses.map((address) => new Connection(address))
  for (const connection of connections) server.emit('connection', connection)
  return connections.filter(({ destroyed }) => !destroyed).length
}

describe('shareConnections', () => {
  const createAddresses = (getAddress: (index: number) => string): string[] =>
    Array.from({ length: 5 }, (_, index) => getAddress(index))

  it.each([
    ['an IPv4 address', () => '192.0.2.1'],
    ['an IPv4 address in the form of IPv6', (index: number) => (index % 2 ? '192.0.2.1' : '::ffff:192.0.2.1')],
    ['an IPv6 network of 64 bits', (index: number) => `2001:db8::${index}`],
    // Several users may share this machine, and the default HOST accepts only local connections.
    ['this machine', (index: number) => (index % 2 ? '127.0.0.1' : '::ffff:127.0.0.1')]
  ])('limits %s to a quarter of all connections', (_what, getAddress) => {
    expect(countOpen(true, createAddresses(getAddress))).toBe(2)
    expect(countOpen(false, createAddresses(getAddress))).toBe(5)
  })

  it.each([
    ['an IPv4 network of 24 bits', (index: number) => `192.0.2.${index}`],
    ['an IPv6 network of 48 bits', (index: number) => `2001:db8:0:${index}::1`]
  ])('limits %s to half of all connections', (_what, getAddress) => {
    expect(countOpen(true, createAddresses(getAddress))).toBe(4)
    expect(countOpen(false, createAddresses(getAddress))).toBe(5)
  })

  it.each([
    ['different IPv4 networks', (index: number) => `192.0.${index}.1`],
    ['different IPv6 networks', (index: number) => `2001:db8:${index}::1`]
  ])('does not limit %s', (_what, getAddress) => expect(countOpen(true, createAddresses(getAddress))).toBe(5))

  it('frees the share of closed connections', () => {
    const server = createIdleServer()
    shareConnections(server, 8, true)
    for (let round = 0; round < 5; round += 1) {
      const connection = new Connection('192.0.2.1')
      server.emit('connection', connection)
      expect(connection.destroyed).toBe(false)
      connection.destroy()
    }
  })
})
