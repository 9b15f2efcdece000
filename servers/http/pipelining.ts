import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'

/** Maximum number of requests that a connection may send before the first of them is answered. */
const MAX_AHEAD = 100
/** Requests sent ahead that are started, over all connections, before the event loop polls its sockets again. */
const STARTS_PER_TICK = 16

interface Connection {
  /** Whether a request is running or waiting. Requests that arrive meanwhile wait as well. */
  isBusy: boolean
  /** Functions that start the waiting requests, in order of arrival. */
  readonly waiting: (() => void)[]
}

/**
 * Creates a listener that handles one request of a connection at a time. Node starts all pipelined requests at once: a
 * few kilobytes could then request gigabytes of responses, which wait in memory for the earlier ones.
 *
 * A request that waited starts in a later tick, a few of them in each, round-robin by connection. Started in the tick
 * in which the answer before it ended, 500 connections with 99 requests each kept all other clients waiting for 9 s.
 */
export function handleOneAtATime(listener: RequestListener): RequestListener {
  const connections = new WeakMap<Socket, Connection>()
  const startLater = startsInLaterTicks()
  return (req, res) => {
    const { socket } = req
    const connection = connections.get(socket) ?? { isBusy: false, waiting: [] }
    connections.set(socket, connection)
    const { waiting } = connection
    const startNext = (): void => {
      const next = socket.destroyed ? undefined : waiting.shift()
      if (next === undefined) connection.isBusy = false
      else next()
    }
    const start = (): void => {
      connection.isBusy = true
      res.once('close', () => {
        if (waiting.length === 0) connection.isBusy = false
        else startLater(startNext)
      })
      listener(req, res)
    }
    // One request is running; the others wait.
    if (!connection.isBusy) start()
    else if (waiting.length < MAX_AHEAD - 1) waiting.push(start)
    else socket.destroy()
  }
}

function startsInLaterTicks(): (start: () => void) => void {
  const starts: (() => void)[] = []
  const run = (): void => {
    const due = starts.splice(0, STARTS_PER_TICK)
    if (starts.length > 0) setImmediate(run)
    for (const start of due) start()
  }
  return (start) => {
    starts.push(start)
    if (starts.length === 1) setImmediate(run)
  }
}
