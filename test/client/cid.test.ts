import { describe, expect, it } from '@jest/globals'
import { importer } from 'ipfs-unixfs-importer'
import { readFileSync } from 'node:fs'
import { computeCid } from '../../src/client/relay/blocks.js'
import { hasCid, readLinks } from '../../src/client/relay/gateway.js'
import { importBlocks } from '../support/engines/unixfs-importer.js'
import { isRepeated } from '../support/fixtures/time-factor.js'

interface Vector {
  letter: string
  byteCount: number
  cid: string
}

const vectors = JSON.parse(readFileSync(new URL('../vectors/cids.json', import.meta.url), 'utf8')) as Vector[]

/** Content of so many bytes takes a second, and is left to the slow suite. */
const MANY_BYTES = 10_000_000

describe('computeCid', () => {
  it.each(vectors.filter(({ byteCount }) => isRepeated || byteCount < MANY_BYTES))(
    'returns the CID of the test vector for $byteCount bytes',
    async ({ letter, byteCount, cid }) => {
      expect(await computeCid(new Uint8Array(byteCount).fill(letter.charCodeAt(0)))).toBe(cid)
    }
  )

  it.each([0, 1, 262_143, 262_145, 524_288, 900_001])(
    'returns the CID of the importer for %i bytes',
    async (byteCount) => {
      const bytes = Uint8Array.from({ length: byteCount }, (_, index) => (index * 31) % 251)
      const store = { put: async (cid: unknown) => cid, get: () => Promise.reject(new Error('not asked')) }
      const options = { rawLeaves: true, cidVersion: 1 } as const
      let root = ''
      for await (const entry of importer([{ content: bytes }], store as never, options)) root = entry.cid.toString()
      expect(await computeCid(bytes)).toBe(root)
    }
  )
})

describe('readLinks', () => {
  it('lists the blocks below a node, each under its CID', async () => {
    const blocks = await importBlocks(Buffer.alloc(600_000, 'a'))
    const root = blocks.at(-1)!
    expect(readLinks(new Uint8Array(root.bytes))).toEqual(blocks.slice(0, -1).map(({ cid }) => cid))
    for (const { cid, bytes } of blocks) expect(await hasCid(cid, new Uint8Array(bytes))).toBe(true)
    expect(await hasCid(root.cid, new Uint8Array(root.bytes).fill(0, 0, 1))).toBe(false)
  })

  it.each([[[]], [[0x12]], [[0x12, 0]], [[0x12, 255, 1]], [[0x0a, 2, 8, 1]], [Array<number>(100).fill(0x12)]])(
    'returns nothing for bytes that are not a node: %j',
    (bytes) => expect(readLinks(Uint8Array.from(bytes)).length).toBeLessThan(100)
  )
})
