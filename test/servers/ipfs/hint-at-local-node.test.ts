import { afterEach, describe, expect, it } from '@jest/globals'
import type { RequestListener } from 'node:http'
import { pino } from 'pino'
import { hintAtLocalNode } from '../../../servers/ipfs/hint-at-local-node.js'
import { closeServices, serving } from '../../support/server-client.js'

afterEach(closeServices)

/** The lines that are logged beside such a listener. */
async function linesBeside(listener: RequestListener): Promise<string[]> {
  const lines: string[] = []
  const log = pino({ base: null, timestamp: false }, { write: (line: string) => lines.push(line) })
  await hintAtLocalNode(log, await serving(listener))
  return lines
}

describe('hintAtLocalNode', () => {
  it('names a node that answers, and the variable', async () => {
    const asked: string[] = []
    const [line = '', ...others] = await linesBeside((req, res) => {
      asked.push(`${req.method!} ${req.url!}`)
      res.end('{"Version":"0.42.0"}')
    })
    expect(asked).toEqual(['POST /api/v0/version'])
    const { msg } = JSON.parse(line) as { msg: string }
    expect(msg).toMatch(/^an IPFS node answers at http:\/\/127\.0\.0\.1:\d+: with IPFS_API_URL /)
    expect(others).toEqual([])
  })

  it.each<[string, RequestListener]>([
    ['another service', (_req, res) => void res.writeHead(404).end()],
    ['a redirect', (_req, res) => void res.writeHead(302, { Location: 'https://elsewhere.example' }).end()],
    ['what says nothing, after 1 s', () => undefined],
    ['what breaks the connection', (req) => void req.socket.destroy()]
  ])('is silent beside %s', async (_what, listener) => {
    expect(await linesBeside(listener)).toEqual([])
  })
})
