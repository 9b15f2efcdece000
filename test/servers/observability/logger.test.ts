import { describe, expect, it } from '@jest/globals'
import { announce, logRequest, serverLog } from '../../../servers/observability/logger.js'

/** What a log writes, in lines. */
function linesOf(
  format: 'pretty' | 'json' | undefined,
  isTerminal: boolean,
  write: (log: ReturnType<typeof serverLog>) => void
): string[] {
  const lines: string[] = []
  const env = { LOG_LEVEL: 'info' as const, LOG_FORMAT: format, name: 'auth' as const }
  write(serverLog(env, isTerminal, { write: (line: string) => lines.push(line) }))
  return lines
}

const withoutTime = (line: string): string => line.replace(/^\d\d:\d\d:\d\d\.\d{3}/, 'TIME')

describe('the log of a server', () => {
  it.each([
    [undefined, true, 'pretty'],
    [undefined, false, 'json'],
    ['json', true, 'json'],
    ['pretty', false, 'pretty']
  ] as const)('with LOG_FORMAT %s, terminal %s, is %s', (format, isTerminal, expected) => {
    const [line = ''] = linesOf(format, isTerminal, (log) => log.info({ event: 'a' }, 'text'))
    expect(line.startsWith('{') ? 'json' : 'pretty').toBe(expected)
    expect(line.endsWith('\n')).toBe(true)
  })

  it('has one readable line for each event on a terminal', () => {
    const lines = linesOf('pretty', true, (log) => {
      announce(log, { event: 'ready', url: 'http://127.0.0.1:3000' }, 'ready at http://localhost:3000')
      logRequest(log, { method: 'GET', route: '/me', status: 401, seconds: 0.0012345 })
      logRequest(log, { method: 'GET', route: '/ready', status: 503, seconds: 0.001 })
      for (const route of ['/ready', '/health']) logRequest(log, { method: 'GET', route, status: 200, seconds: 0.001 })
      log.warn({ event: 'first-refusal', code: 'ERR_DID', reason: { check: 'did' }, text: 'two words' }, 'refused')
      log.debug({ event: 'request-refused' }, 'not at this level')
    })
    expect(lines.map(withoutTime)).toEqual([
      'TIME  INFO   auth   ready at http://localhost:3000\n',
      'TIME  INFO   auth   GET /me 401 1.235 ms\n',
      'TIME  INFO   auth   GET /ready 503 1 ms\n',
      'TIME  WARN   auth   refused  code=ERR_DID  reason={"check":"did"}  text="two words"\n'
    ])
  })

  it('keeps a line feed of a field within the line', () => {
    const lines = linesOf('pretty', true, (log) => log.info({ text: 'a\nb' }, 'message'))
    expect(lines.map(withoutTime)).toEqual(['TIME  INFO   auth   message  text="a\\nb"\n'])
  })
})
