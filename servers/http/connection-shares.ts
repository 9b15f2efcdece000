import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { computeClientNetwork } from 'express-did-auth/server-kit'

/** Maximum fraction of all connections that one client network may hold. */
const SHARE = 1 / 4

/**
 * Limits the connections of a server. When the maximum is reached, the connection that has been idle longest is closed,
 * so that clients with idle connections cannot block others.
 *
 * @param max - maximum number of open connections; Node closes further ones immediately
 * @param perNetwork - whether an IPv4 address or an IPv6 network of 64 bits may hold at most a quarter; also loopback
 */
export function shareConnections(server: Server, max: number, perNetwork: boolean): void {
  const largestShare = Math.ceil(max * SHARE)
  /** Number of open connections of each network. */
  const counts = new Map<string, number>()
  /** Number of unanswered requests of each connection. Node emits pipelined requests immediately. */
  const unanswered = new WeakMap<Socket, number>()
  /** Connections without a request. The connection that has been idle longest comes first. */
  const idle = new Set<Socket>()
  let open = 0
  server.maxConnections = max

  server.on('connection', (socket: Socket) => {
    const network = computeClientNetwork(socket.remoteAddress ?? '')
    const count = (counts.get(network) ?? 0) + 1
    counts.set(network, count)
    open += 1
    socket.once('close', () => {
      open -= 1
      idle.delete(socket)
      const left = (counts.get(network) ?? 0) - 1
      if (left > 0) counts.set(network, left)
      else counts.delete(network)
    })
    if (perNetwork && count > largestShare) socket.destroy()
    // Node refuses connections above the maximum before this listener runs, so one place always stays free.
    else if (open >= max) idle.values().next().value?.destroy()
  })

  server.on('request', ({ socket }: IncomingMessage, res: ServerResponse) => {
    idle.delete(socket)
    unanswered.set(socket, (unanswered.get(socket) ?? 0) + 1)
    res.once('close', () => {
      const left = (unanswered.get(socket) ?? 0) - 1
      unanswered.set(socket, left)
      if (left === 0 && !socket.destroyed) idle.add(socket)
    })
  })
}
