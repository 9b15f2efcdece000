import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { createSecureContext, TLSSocket } from 'node:tls'
import { temporaryFolder } from '../fixtures/store-folder.js'

const vectors = JSON.parse(
  readFileSync(new URL('../../vectors/certificates.json', import.meta.url), 'utf8')
) as Readonly<Record<string, string>>

/** Names of the certificates of a server. */
export type CertificateName = 'valid' | 'self-signed' | 'wrong name' | 'expired'

/** A server that does nothing but a TLS handshake, and counts those that its clients have completed. */
export interface TlsEngine {
  port: number
  /** File of the authority that issued the certificates. */
  caFile: string
  handshakes: () => number
  close: () => void
}

/** Starts a server with a certificate. @param engine - PostgreSQL agrees on TLS first; Redis begins with it */
export async function startTlsEngine(engine: 'PostgreSQL' | 'Redis', name: CertificateName): Promise<TlsEngine> {
  const folder = temporaryFolder()
  const caFile = join(folder.path, 'ca.pem')
  writeFileSync(caFile, vectors.authority ?? '')
  const secureContext = createSecureContext({ key: vectors.key, cert: vectors[name] })
  let handshakes = 0
  const sockets = new Set<Socket>()
  const startTls = (socket: Socket): void => {
    const secure = new TLSSocket(socket, { isServer: true, secureContext })
    // The server's part of the handshake ends before a client of TLS 1.3 refuses the certificate.
    secure
      .on('error', () => undefined)
      .on('data', () => {
        handshakes += 1
        socket.destroy()
      })
  }
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined))
    if (engine === 'Redis') startTls(socket)
    else
      socket.once('data', () => {
        socket.write('S')
        startTls(socket)
      })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    caFile,
    handshakes: () => handshakes,
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      folder.remove()
    }
  }
}
