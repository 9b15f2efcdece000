import { decode } from '@ipld/dag-pb'
import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { importer } from 'ipfs-unixfs-importer'
import { fixedSize } from 'ipfs-unixfs-importer/chunker'
import { balanced } from 'ipfs-unixfs-importer/layout'
import type { CID } from 'multiformats'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { cidOfLeaves, contentOf, isCid, LeafHasher, newContentOf } from '../../../servers/storage/unixfs-blocks.js'

/** Content of one letter, repeated, with the cid that an IPFS node gives it. */
interface CidVector {
  letter: string
  byteCount: number
  blockCount: number
  cid: string
}

const vectors = JSON.parse(readFileSync(new URL('../../vectors/cids.json', import.meta.url), 'utf8')) as CidVector[]

function notAsked(): never {
  throw new Error('nothing is read while content is added')
}

/** The cid by another implementation. */
async function importedCid(bytes: Uint8Array): Promise<string> {
  const options = {
    cidVersion: 1 as const,
    rawLeaves: true,
    wrapWithDirectory: false,
    chunker: fixedSize({ chunkSize: 262_144 }),
    layout: balanced({ maxChildrenPerNode: 174 })
  }
  const blocks = { put: (cid: CID) => cid, get: notAsked }
  for await (const { cid } of importer([{ content: bytes }], blocks, options)) return cid.toString()
  throw new Error('nothing was imported')
}

/** Bytes that do not repeat themselves. */
function noise(byteCount: number, seed: number): Buffer {
  const bytes = createHash('shake256', { outputLength: byteCount + 1 })
    .update(String(seed))
    .digest()
  return bytes.subarray(1)
}

describe('contentOf', () => {
  it.each(vectors)('gives $byteCount bytes $cid', ({ letter, byteCount, blockCount, cid }) => {
    const content = contentOf(Buffer.alloc(byteCount, letter))
    expect(content).toMatchObject({ cid, byteCount })
    expect(content.blocks).toHaveLength(blockCount)
    expect(content.blocks.at(-1)?.cid).toBe(cid)
  })

  it.each(vectors)('agrees with the importer on $byteCount bytes', async ({ letter, byteCount, cid }) => {
    expect(await importedCid(Buffer.alloc(byteCount, letter))).toBe(cid)
  })

  it('agrees with the importer on random bytes of random sizes', async () => {
    const sizes = fc.oneof(
      fc.integer({ min: 0, max: 3_000_000 }),
      fc.integer({ min: -2, max: 2 }).chain((off) => fc.integer({ min: 1, max: 9 }).map((many) => many * 262_144 + off))
    )
    await fc.assert(
      fc.asyncProperty(sizes, fc.integer(), async (size, seed) => {
        const bytes = noise(size, seed)
        expect(contentOf(bytes).cid).toBe(await importedCid(bytes))
      }),
      { numRuns: 60 }
    )
  })

  it('splits content into leaves that are the content, and links them in order', () => {
    const bytes = noise(600_000, 1)
    const { blocks } = contentOf(bytes)
    expect(blocks.map(({ bytes }) => bytes.length)).toEqual([262_144, 262_144, 75_712, 158])
    expect(Buffer.concat(blocks.slice(0, 3).map(({ bytes }) => bytes)).equals(bytes)).toBe(true)
    const links = decode(blocks[3]!.bytes).Links.map(({ Hash }) => Hash.toString())
    expect(links).toEqual(blocks.slice(0, 3).map(({ cid }) => cid))
  })
})

describe('isCid', () => {
  const cid = 'bafkreif7fs2yu2hwqtmvuo3y56hwmhe2jznqt2bmzd44zcgm5ecsrsxle4'
  it('accepts the cids of vectors', () => {
    for (const vector of vectors) expect(isCid(vector.cid)).toBe(true)
  })
  it.each([
    ['', 'nothing'],
    [cid.toUpperCase(), 'upper case'],
    [cid.slice(0, -1), 'one character less'],
    [`${cid}a`, 'one more'],
    [`${cid}\n`, 'a line feed more'],
    [cid.replace('b', 'z'), 'another base'],
    [cid.replace('2', '1'), 'a digit that base32 does not have'],
    ['QmPZ9gcCEpqKTo6aq61g2nXGUhM4iCL3ewB6LDXZCtioEB', 'version 0'],
    ['../../etc/passwd', 'a path']
  ])('refuses %j: %s', (text) => {
    expect(isCid(text)).toBe(false)
  })
})

describe('LeafHasher', () => {
  it.each(vectors)('computes the cid of $byteCount bytes by their leaf hashes', ({ letter, byteCount, cid }) => {
    const content = newContentOf(Buffer.alloc(byteCount, letter), byteCount + 2)
    expect(content).toMatchObject({ cid, byteCount, jsonByteCount: byteCount + 2 })
    expect(content.leafHashes).toHaveLength(32 * Math.max(1, Math.ceil(byteCount / 262_144)))
    expect(cidOfLeaves(content.leafHashes, byteCount)).toBe(cid)
  })

  it('computes the same for content that arrives in parts of any size', () => {
    const sizes = fc.array(fc.integer({ min: 0, max: 300_000 }), { maxLength: 6 })
    const property = fc.property(sizes, fc.nat(), (parts, seed) => {
      const bytes = noise(
        parts.reduce((sum, size) => sum + size, 0),
        seed
      )
      const hasher = new LeafHasher()
      let start = 0
      for (const size of parts) hasher.update(bytes.subarray(start, (start += size)))
      expect(hasher.finish().cid).toBe(contentOf(bytes).cid)
    })
    fc.assert(property, { numRuns: 30 })
  })

  it('tells no cid where hashes are missing or too many', () => {
    expect(cidOfLeaves(new Uint8Array(32), 262_145)).toBeUndefined()
    expect(cidOfLeaves(new Uint8Array(64), 262_144)).toBeUndefined()
  })
})
