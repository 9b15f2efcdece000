import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { computeClientNetwork } from 'express-did-auth/server-kit'

/** Largest part of all connections that one client network may hold. */
const SHARE = 1 / 4

/**
 * Bounds the connections of a server. When all are open, the one that has been idle longest is closed, so that clients
 * that only keep theirs open keep nobody out.
 *
 * @param max - maximum number of open connections; Node closes further ones immediately
 * @param perNetwork - Whether an address, or an IPv6 network of 64 bits, may hold at most a quarter: this machine too
 */
export function shareConnections(server: Server, max: number, perNetwork: boolean): void {
  const largestShare = Math.ceil(max * SHARE)
  /** Open connections of each network that has one. */
  const counts = new Map<string, number>()
  /** Requests of each connection that are not answered yet. Node announces those sent ahead at once. */
  const unanswered = new WeakMap<Socket, number>()
  /** Connections without a request, the one that has been idle longest first. */
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
    // Node refuses a connection above the maximum before this listener could make a place: one is always free.
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
