import { randomInt } from 'node:crypto'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** Fate of the next request that a {@link TcpProxy} is told of. */
export type Cut = 'before the request' | 'before the answer'

/** A proxy in front of any server, which is as bad as a network can be. */
export interface TcpProxy {
  readonly port: number
  /** Connections that clients have open now. */
  connections(): number
  /** Milliseconds that each piece of data takes, in each direction. */
  delay(milliseconds: number): void
  /** Swallows all data from now on, and tells neither side; `false` ends that for new connections. */
  blackHole(isOn: boolean): void
  /** Cuts all connections by a reset. */
  reset(): void
  /** Leads new connections to another port, and resets the others: the address has moved. */
  moveTo(port: number): void
  /** Cuts each connection from now on when its server has sent that many bytes. */
  cutAfter(bytes: number): void
  /** Cuts the connection of the next request that contains a text: the request, or its answer, does not arrive. */
  cut(text: string, when: Cut): void
  /** Requests that were cut so. */
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
  let [delay, mostBytes, isBlackHole, cuts] = [0, Infinity, false, 0]
  let next: { text: string; when: Cut } | undefined

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
  /** Passes data on in its order, each piece as late as it has to be. */
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
      if (next !== undefined && data.includes(next.text)) {
        const { when } = next
        next = undefined
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
      if (link.sent >= mostBytes) end(link)
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
      mostBytes = bytes
    },
    cut: (text, when) => {
      next = { text, when }
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
