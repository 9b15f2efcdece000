import { afterEach, describe, expect, it } from '@jest/globals'
import { CID, digest } from 'multiformats'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { ipfsHttpNode, type IpfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'

const servers: Server[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
})

/** A node that answers every order in pieces, as it is told. */
async function nodeThat(
  answer: (res: ServerResponse) => Promise<void>,
  deadlines: { deadlineMilliseconds: number; listMilliseconds: number }
): Promise<IpfsHttpNode> {
  const server = createServer((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'application/json' })
    void answer(res)
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return ipfsHttpNode(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, deadlines)
}

/** Lines about so many pins, each another than all before. */
function linesOf(from: number, count: number): string {
  const lines: string[] = []
  const hash = Buffer.alloc(32)
  for (let number = from; number < from + count; number += 1) {
    hash.writeUInt32BE(number)
    const cid = CID.createV1(0x55, digest.create(0x12, hash))
    lines.push(`{"Cid":"${cid.toString()}","Type":"recursive"}\n`)
  }
  return lines.join('')
}

async function msOf(asked: Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await asked
  return performance.now() - startedAt
}

describe('a list of pins', () => {
  it('may take longer than the deadline, as long as more of it comes', async () => {
    const pieces = Array.from({ length: 40 }, (_, index) => linesOf(index * 5_000, 5_000))
    const deadlines = { deadlineMilliseconds: 1_000, listMilliseconds: 60_000 }
    const node = await nodeThat(async (res) => {
      for (const piece of pieces) {
        res.write(piece)
        await pause(50)
      }
      res.end()
    }, deadlines)
    const asked = node.listPins()
    expect(await msOf(asked)).toBeGreaterThan(2_000)
    expect((await asked).size).toBe(200_000)
  }, 60_000)

  it('is over when nothing comes for as long as the deadline', async () => {
    const node = await nodeThat(
      async (res) => {
        res.write(linesOf(0, 10))
        await pause(300)
        res.write(linesOf(10, 10))
      },
      { deadlineMilliseconds: 800, listMilliseconds: 60_000 }
    )
    const asked = expect(node.listPins()).rejects.toMatchObject({ code: 'ERR_NODE_SLOW' })
    expect(await msOf(asked)).toBeGreaterThan(1_090)
  })

  it('is over after a time of its own, however much still comes', async () => {
    const node = await nodeThat(
      async (res) => {
        for (let number = 0; !res.destroyed; number += 1) {
          res.write(linesOf(number, 1))
          await pause(10)
        }
      },
      { deadlineMilliseconds: 500, listMilliseconds: 1_000 }
    )
    const asked = expect(node.listPins()).rejects.toMatchObject({ code: 'ERR_NODE_SLOW' })
    const milliseconds = await msOf(asked)
    expect(milliseconds).toBeGreaterThan(990)
    expect(milliseconds).toBeLessThan(5_000)
  })
})
