import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Express } from 'express'
import type { Logger } from 'pino'

const HEADERS_MILLISECONDS = 10_000
const REQUEST_MILLISECONDS = 15_000
const STOP_MILLISECONDS = 8_000

/** A server that listens. */
export interface Running {
  /** `http://<host>:<port>` where it really listens. */
  url: string
  /** Finishes what is under way, refuses what is new, lets go of everything. */
  stop(): Promise<void>
}

/** An application for the port that was really taken, and how to let go of what it holds after its last answer. */
export type Build = (port: number) => { app: Express; release: () => Promise<void> }

/**
 * Listens. A client that is slow with its headers or its body is let go, so that half-open connections hold nothing.
 */
export async function serve(where: { port: number; host: string }, build: Build): Promise<Running> {
  const server = createServer({ connectionsCheckingInterval: 1_000 })
  server.headersTimeout = HEADERS_MILLISECONDS
  server.requestTimeout = REQUEST_MILLISECONDS
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(where.port, where.host, resolve)
  })
  const { port, address, family } = server.address() as AddressInfo
  const { app, release } = build(port)
  server.on('request', app)
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    stop: async () => {
      await closed(server)
      await release()
    }
  }
}

/** Resolves when the last answer is out, at the latest after 8 s. */
function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const tooLate = setTimeout(() => {
      server.closeAllConnections()
    }, STOP_MILLISECONDS)
    server.close(() => {
      clearTimeout(tooLate)
      resolve()
    })
    server.closeIdleConnections()
  })
}

/** Stops everything at SIGTERM or SIGINT, and leaves with exit code 0; a second signal leaves at once. */
export function stopAtSignal(running: readonly Running[], log: Logger): void {
  let isStopping = false
  const stop = (signal: NodeJS.Signals): void => {
    if (isStopping) process.exit(1)
    isStopping = true
    log.info({ event: 'stopping', signal }, 'stopping')
    void Promise.allSettled(running.map((server) => server.stop())).then((results) => {
      const failures = results.filter((result) => result.status === 'rejected').length
      log.info({ event: 'stopped', failures }, 'stopped')
      log.flush()
      process.exit(failures === 0 ? 0 : 1)
    })
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
}
