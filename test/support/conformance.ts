import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { checkConformance, type ConformanceReport } from '../../servers/commands/conformance/command.js'
import type { TestClock } from './test-app.js'

const servers: Server[] = []

/** Listens on a free port until {@link closeServices}. */
export async function serving(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

export function closeServices(): void {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
}

/** Checks a server. Where its clock is given, a wait for tokens to expire moves that. */
export async function checkService(
  listener: RequestListener,
  { clock, ...options }: { clock?: TestClock; protectedPath?: string; domain?: string } = {}
): Promise<ConformanceReport> {
  const wait = async (seconds: number): Promise<void> => {
    if (clock !== undefined) clock.seconds += seconds
  }
  const url = new URL(await serving(listener))
  const maxWaitSeconds = clock === undefined ? 0 : 600
  return checkConformance({ url, protectedPath: '/me', maxWaitSeconds, wait, ...options })
}

export const idsOf = ({ checks }: ConformanceReport, outcome: string): string[] =>
  checks.filter((one) => one.outcome === outcome).map(({ id }) => id)
