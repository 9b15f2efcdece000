import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A TCP proxy that adds to each round trip; half of it on either way. */
export async function delayProxy(port: number, tripMilliseconds: number): Promise<{ port: number; close(): void }> {
  const sockets = new Set<Socket>()
  const passOn = (from: Socket, to: Socket): void => {
    sockets.add(from)
    // Timers of one length run in the order in which they were set.
    const later = (run: () => void): void => void setTimeout(run, tripMilliseconds / 2)
    from.on('data', (chunk) => {
      later(() => to.write(chunk))
    })
    from.on('close', () => {
      sockets.delete(from)
      later(() => to.destroy())
    })
    from.on('error', () => undefined)
  }
  const server = createServer({ noDelay: true }, (client) => {
    const database = connect({ port, host: '127.0.0.1', noDelay: true })
    passOn(client, database)
    passOn(database, client)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    }
  }
}
