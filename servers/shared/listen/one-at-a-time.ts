import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'

/** Requests that a connection may send before the first of them is answered. */
const MAX_AHEAD = 100

/**
 * One request at a time a connection. Node begins all that a client sends ahead at once, though it answers in order: a few
 * kilobytes could then ask for gigabytes of answers, which wait for each other in memory.
 */
export function oneAtATime(listener: RequestListener): RequestListener {
  const lines = new WeakMap<Socket, (() => void)[]>()
  return (req, res) => {
    const { socket } = req
    let line = lines.get(socket)
    if (line === undefined) {
      line = []
      lines.set(socket, line)
    }
    if (line.length === MAX_AHEAD) {
      socket.destroy()
      return
    }
    const inLine = line
    inLine.push(() => {
      res.once('close', () => {
        inLine.shift()
        if (!socket.destroyed) inLine[0]?.()
      })
      listener(req, res)
    })
    if (inLine.length === 1) inLine[0]?.()
  }
}
