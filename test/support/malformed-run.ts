import { connect } from 'node:net'
import type { MalformedRequest } from './malformed-requests.js'
import { scaled } from './time-factor.js'

/** What a run of malformed requests came to. */
export interface MalformedRun {
  sent: number
  /** How many answers had each status; 0 for a connection that ended without one. */
  statuses: Record<string, number>
  /** Requests answered 5xx, not answered in time, or with a stack or HTML in the answer: none is what we want. */
  faults: string[]
  /** Answers that were a page of Express's own: a host's affair, and for a server of ours a fault. */
  pages: number
}

const PARALLEL = 16
const LEAK =
  /<html|<!doctype|<body|<pre|node_modules|\n\s+at |\.[jt]s:\d+|TypeError|SyntaxError|ReferenceError|RangeError/i

/** Sends requests, 16 at a time, each over a connection of its own. */
export async function runMalformed(
  port: number,
  requests: readonly MalformedRequest[],
  hangMilliseconds = scaled(30_000)
): Promise<MalformedRun> {
  const run: MalformedRun = { sent: 0, statuses: {}, faults: [], pages: 0 }
  const queue = [...requests]
  const work = async (): Promise<void> => {
    for (let request = queue.pop(); request !== undefined; request = queue.pop()) {
      const { text, hung } = await exchange(port, request.bytes, hangMilliseconds)
      const status = /^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? '0'
      run.sent += 1
      run.statuses[status] = (run.statuses[status] ?? 0) + 1
      if (hung) run.faults.push(`hangs: ${request.name}`)
      if (status.startsWith('5')) run.faults.push(`${status}: ${request.name}`)
      // A URL that Express cannot parse gets its own 404, and reaches no route.
      const isOfExpress = status === '404' && text.includes('<pre>Cannot ')
      if (isOfExpress) run.pages += 1
      if (LEAK.test(text) && !isOfExpress) run.faults.push(`leaks: ${request.name}: ${text.slice(0, 300)}`)
    }
  }
  await Promise.all(Array.from({ length: PARALLEL }, work))
  return run
}

/** Sends bytes, half-closes, and reads until the other side ends or the time is up. */
export function exchange(
  port: number,
  bytes: Buffer,
  hangMilliseconds = scaled(30_000)
): Promise<{ text: string; hung: boolean }> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const socket = connect({ port, host: '127.0.0.1' })
    const done = (hung: boolean): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ text: Buffer.concat(chunks).toString(), hung })
    }
    const timer = setTimeout(() => {
      done(true)
    }, hangMilliseconds)
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('close', () => {
      done(false)
    })
    // A reset is an end as well: the server need not read what it has refused.
    socket.on('error', () => {
      done(false)
    })
    socket.end(bytes)
  })
}
