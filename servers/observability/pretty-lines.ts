import type { DestinationStream } from 'pino'

const INDENT = 2
/** Fields that the line shows in places of their own, or that every line has. */
const SHOWN = new Set(['time', 'level', 'server', 'msg', 'event'])

/**
 * Writes pino's JSON lines for people: time, level, server, message, and the other fields as `name=value`.
 *
 * @param destination - receives the text of each line
 */
export function prettyLines(destination: DestinationStream): DestinationStream {
  return {
    write(line) {
      destination.write(`${prettyLine(line)}\n`)
    }
  }
}

function prettyLine(line: string): string {
  const fields = JSON.parse(line) as Record<string, unknown>
  const { time, level, server, msg, event } = fields
  const [clock] = String(time).slice(11).split('Z')
  const head = [clock, String(level).toUpperCase().padEnd(5), String(server).padEnd(5)].join(' '.repeat(INDENT))
  if (event === 'request') return `${head}  ${requestText(fields)}`
  // The sentence says it all.
  if (event === 'ready' || event === 'page') return `${head}  ${String(msg)}`
  const rest = Object.entries(fields).filter(([name]) => !SHOWN.has(name))
  return [head, String(msg), ...rest.map(([name, value]) => `${name}=${textOf(value)}`)].join('  ')
}

function requestText({ method, route, status, milliseconds }: Record<string, unknown>): string {
  return `${String(method)} ${String(route)} ${String(status)} ${String(milliseconds)} ms`
}

function textOf(value: unknown): string {
  return typeof value === 'string' && !/\s/.test(value) ? value : JSON.stringify(value)
}
