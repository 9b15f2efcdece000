import { describe, expect, it } from '@jest/globals'
import { createHash } from 'node:crypto'
import { RelayClient } from 'express-did-auth/client/relay'
import { cidOf } from '../../src/client/relay/blocks.js'
import { readFromGateway } from '../../src/client/relay/gateway.js'
import { readAll } from '../../src/client/request.js'
import { expectClientError as expectError, serverAt } from '../support/client-error.js'

const url = 'http://127.0.0.1:1'

/** A gateway with one block, and what it was asked for. */
async function gatewayWith(
  cid: string,
  block: Uint8Array
): Promise<{ url: string; asked: string[]; accepts: unknown[]; most: () => number }> {
  const asked: string[] = []
  const accepts: unknown[] = []
  let [pending, most] = [0, 0]
  const address = await serverAt((req, res) => {
    asked.push(String(req.url))
    accepts.push(req.headers.accept)
    pending += 1
    most = Math.max(most, pending)
    setTimeout(() => {
      pending -= 1
      if (String(req.url).includes(cid)) res.end(block)
      else res.writeHead(404).end()
    }, 5)
  })
  return { url: address, asked, accepts, most: () => most }
}

/** The cid of a node that was made by hand, whose first byte of content is not ours. */
function cidOfNode(node: Uint8Array): string {
  const bytes = Buffer.concat([Buffer.from([1, 0x70, 0x12, 32]), createHash('sha256').update(node).digest()])
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const letters = bits
    .match(/.{1,5}/g)!
    .map((five) => 'abcdefghijklmnopqrstuvwxyz234567'[parseInt(five.padEnd(5, '0'), 2)])
  return `b${letters.join('')}`
}

/** A link as nodes have it, to a block with some hash. */
function link(index: number, codec = 0x55): Buffer {
  const hash = createHash('sha256').update(String(index)).digest()
  return Buffer.concat([Buffer.from([0x12, 38, 0x0a, 36, 1, codec, 0x12, 32]), hash])
}

/** Reads from a gateway alone: of a client, the relay's error counts where all fail. */
const read = (gateway: string, cid: string) =>
  readFromGateway({ url, read: readAll }, gateway, cid, new AbortController().signal)

const links = (count: number) => Buffer.concat(Array.from({ length: count }, (_, index) => link(index)))

describe('RelayClient with a gateway', () => {
  it.each([
    ['131,072 empty links', Buffer.from('1200'.repeat(131_072), 'hex')],
    ['one link more than a node of ours has', links(175)],
    ['a link of another hash than SHA2-256', Buffer.concat([link(1), Buffer.from([0x12, 4, 0x0a, 2, 1, 0x55])])],
    ['a link of another codec', Buffer.concat([link(1), link(2, 0x71)])]
  ])('asks for nothing more after a root with %s', async (_what, root) => {
    const cid = cidOfNode(root)
    const gateway = await gatewayWith(cid, root)
    await expectError(read(gateway.url, cid), { code: 'MISMATCH' })
    expect(gateway.asked).toHaveLength(1)
  })

  it('asks for a few blocks at once', async () => {
    const root = links(174)
    const cid = cidOfNode(root)
    const gateway = await gatewayWith(cid, root)
    await expectError(read(gateway.url, cid), { code: 'NOT_FOUND' })
    expect(gateway.most()).toBeLessThanOrEqual(8)
  })

  it('asks for a block in both ways, and one whose URL ends in a slash for the same path', async () => {
    const block = Buffer.from('abc')
    const cid = await cidOf(Uint8Array.from(block))
    const gateway = await gatewayWith(cid, block)
    expect(await read(`${gateway.url}/`, cid)).toEqual(Uint8Array.from(block))
    expect(gateway.asked).toEqual([`/ipfs/${cid}?format=raw`])
    expect(gateway.accepts).toEqual(['application/vnd.ipld.raw'])
  })
})

describe('RelayClient says what is wrong with what it is given:', () => {
  it.each(['none', '', 'relay.example.com', '/relay', 'ftp://relay.example', undefined, 7])('the url %j', (given) => {
    expect(() => new RelayClient({ url: given as string })).toThrow(new TypeError(`${given}: not http(s)`))
  })

  it.each([new ArrayBuffer(8), [1, 2], 5, new Blob(['a']), undefined])(
    'content that is neither text nor bytes nor a file: %#',
    (content) => {
      const work = new RelayClient({ url }).send(content as never)
      return expect(work).rejects.toEqual(new TypeError('Give a text, a Uint8Array or a File'))
    }
  )
})
