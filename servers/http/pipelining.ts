import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'

/** Maximum number of unanswered requests of a connection. */
const MAX_AHEAD = 100
/** Number of waiting requests that start in one tick of the event loop, over all connections. */
const STARTS_PER_TICK = 16

interface Connection {
  /** Whether a request is running or waiting. Requests that arrive meanwhile wait as well. */
  isBusy: boolean
  /** Functions that start the waiting requests, in order of arrival. */
  readonly waiting: (() => void)[]
}

/**
 * Creates a listener that handles one request of a connection at a time. Node starts all pipelined requests at once. A
 * few kilobytes could then request gigabytes of responses, which wait in memory for earlier responses.
 *
 * A waiting request starts in a later tick. Each tick starts a few requests, round-robin by connection. When they
 * started in the tick of the previous response, 500 connections with 99 requests each blocked all others for 9 s.
 */
export function handleOneAtATime(listener: RequestListener): RequestListener {
  const connections = new WeakMap<Socket, Connection>()
  const startLater = createTickQueue()
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
    // One request of the connection runs, and the others wait.
    if (!connection.isBusy) start()
    else if (waiting.length < MAX_AHEAD - 1) waiting.push(start)
    else socket.destroy()
  }
}

/** Creates a function that queues starts for later ticks. */
function createTickQueue(): (start: () => void) => void {
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
