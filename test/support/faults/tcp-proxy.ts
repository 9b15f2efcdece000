import { randomInt } from 'node:crypto'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** Moment at which a {@link TcpProxy} cuts a connection. */
export type Cut = 'before the request' | 'before the answer'

/** Proxy in front of a server, which simulates faults of the network. */
export interface TcpProxy {
  readonly port: number
  /** Returns the number of connections that clients have open. */
  connections(): number
  /** Delays each piece of data, in each direction, by a number of milliseconds. */
  delay(milliseconds: number): void
  /** Drops all data from now on, and closes no connection. `false` ends that for new connections only. */
  blackHole(isOn: boolean): void
  /** Cuts all connections by a reset. */
  reset(): void
  /** Forwards new connections to another port, and resets the existing ones, as if the address had moved. */
  moveTo(port: number): void
  /** Cuts each connection from now on after its server has sent that many bytes. */
  cutAfter(bytes: number): void
  /** Cuts the connection of the next request that contains a text: the request, or its answer, does not arrive. */
  cut(text: string, when: Cut): void
  /** Returns the number of requests that `cut` has cut. */
  cuts(): number
  close(): Promise<void>
}

interface Link {
  client: Socket
  server: Socket
  sent: number
  isSwallowed: boolean
  isAnswerLost: boolean
}

/** Starts a proxy to a port of this machine. */
export async function tcpProxy(firstPort: number): Promise<TcpProxy> {
  const links = new Set<Link>()
  let serverPort = firstPort
  let [delay, maxBytes, isBlackHole, cuts] = [0, Infinity, false, 0]
  let nextCut: { text: string; when: Cut } | undefined

  const end = (link: Link, isReset = false): void => {
    links.delete(link)
    for (const socket of [link.client, link.server]) {
      if (isReset) socket.resetAndDestroy()
      else socket.destroy()
    }
  }
  const reset = (): void => {
    for (const link of links) end(link, true)
  }
  /** Returns a function that forwards data to a socket in order, with the delay of each piece. */
  const passOn = (to: Socket): ((data: Buffer) => void) => {
    let last: Promise<unknown> = Promise.resolve()
    return (data) => {
      const delayed = delay > 0 ? pause(delay) : undefined
      last = last.then(() => delayed).then(() => to.writable && to.write(data))
    }
  }
  const proxy = createServer((client) => {
    const server = connect(serverPort, '127.0.0.1')
    const link: Link = { client, server, sent: 0, isSwallowed: isBlackHole, isAnswerLost: false }
    links.add(link)
    const [toServer, toClient] = [passOn(server), passOn(client)]
    client.on('data', (data) => {
      if (link.isSwallowed) return
      if (nextCut !== undefined && data.includes(nextCut.text)) {
        const { when } = nextCut
        nextCut = undefined
        cuts += 1
        if (when === 'before the request') {
          end(link, true)
          return
        }
        link.isAnswerLost = true
      }
      toServer(data)
    })
    server.on('data', (data) => {
      if (link.isSwallowed) return
      link.sent += data.length
      if (link.isAnswerLost) end(link, true)
      else toClient(data)
      if (link.sent >= maxBytes) end(link)
    })
    for (const socket of [client, server]) {
      socket.on('error', () => end(link))
      socket.on('close', () => {
        if (!link.isSwallowed) end(link)
      })
    }
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  return {
    port: (proxy.address() as AddressInfo).port,
    connections: () => [...links].filter(({ client }) => !client.destroyed).length,
    delay: (milliseconds) => {
      delay = milliseconds
    },
    blackHole: (isOn) => {
      isBlackHole = isOn
      for (const link of links) link.isSwallowed ||= isOn
    },
    reset,
    moveTo: (port) => {
      serverPort = port
      reset()
    },
    cutAfter: (bytes) => {
      maxBytes = bytes
    },
    cut: (text, when) => {
      nextCut = { text, when }
    },
    cuts: () => cuts,
    close: async () => {
      const closed = new Promise((resolve) => proxy.close(resolve))
      for (const link of links) end(link)
      await closed
    }
  }
}

/** Returns a port without a listener, below those that the system assigns: a server that restarts finds it free. */
export async function freePort(): Promise<number> {
  const port = randomInt(10_000, 32_000)
  const server = createServer()
  const isFree = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
  })
  if (!isFree) return freePort()
  await new Promise((resolve) => server.close(resolve))
  return port
}
