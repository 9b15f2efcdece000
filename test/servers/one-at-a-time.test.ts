import { afterEach, describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { oneAtATime } from '../../servers/shared/listen/one-at-a-time.js'

let server: Server | undefined

afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

async function start(listener: RequestListener): Promise<number> {
  server = createServer(oneAtATime(listener))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

const requests = (count: number): string =>
  Array.from({ length: count }, (_, index) => `GET /${index} HTTP/1.1\r\nHost: a\r\n\r\n`).join('')

/** Sends text, and answers all that comes back until the other side ends, or has said nothing for a while. */
async function send(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').setTimeout(1_000)
  let received = ''
  socket.setEncoding('latin1').on('data', (chunk: string) => (received += chunk))
  socket.on('error', () => undefined)
  socket.on('timeout', () => socket.destroy())
  socket.write(text)
  await once(socket, 'close')
  return received
}

describe('oneAtATime', () => {
  it('begins a request of a connection when the one before is answered, in order', async () => {
    let [underWay, most] = [0, 0]
    const port = await start((req, res) => {
      underWay += 1
      most = Math.max(most, underWay)
      setTimeout(() => {
        underWay -= 1
        res.end(`<${req.url!}>`)
      }, 5)
    })
    const answers = [...(await send(port, requests(100))).matchAll(/<\/(\d+)>/g)].map(([, number]) => Number(number))
    expect(answers).toEqual(Array.from({ length: 100 }, (_, index) => index))
    expect(most).toBe(1)
  })

  it('lets go of a connection with 101 requests of which none is answered', async () => {
    let begun = 0
    const port = await start(() => {
      begun += 1
    })
    const startedAt = performance.now()
    expect(await send(port, requests(101))).toBe('')
    expect(performance.now() - startedAt).toBeLessThan(900)
    expect(begun).toBe(1)
  })

  it('begins nothing more for a client that has gone', async () => {
    const begun: string[] = []
    const port = await start((req, res) => {
      begun.push(req.url!)
      req.socket.once('close', () => res.end())
    })
    const socket = connect(port, '127.0.0.1')
    socket.write(requests(5))
    while (begun.length === 0) await pause(5)
    socket.destroy()
    await pause(100)
    expect(begun).toEqual(['/0'])
  })

  it('serves connections beside each other', async () => {
    let begun = 0
    const port = await start((_req, res) => {
      begun += 1
      if (begun === 3) res.end('third')
    })
    const texts = await Promise.all([send(port, requests(1)), send(port, requests(1)), send(port, requests(1))])
    expect(texts.filter((text) => text.endsWith('third'))).toHaveLength(1)
  })
})
