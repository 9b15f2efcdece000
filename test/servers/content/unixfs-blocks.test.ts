import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { cidOf, computeCidFromLeaves, isCid, LeafHasher } from '../../../servers/content/unixfs-blocks.js'
import { importBlocks } from '../../support/engines/unixfs-importer.js'
import { isRepeated, sampled } from '../../support/fixtures/time-factor.js'

/** Content of one repeated letter, with the CID that an IPFS node computes. */
interface CidVector {
  letter: string
  byteCount: number
  blockCount: number
  cid: string
}

const vectors = JSON.parse(readFileSync(new URL('../../vectors/cids.json', import.meta.url), 'utf8')) as CidVector[]

const importCid = async (bytes: Uint8Array): Promise<string | undefined> => (await importBlocks(bytes)).at(-1)?.cid

/** Creates bytes without repetition. */
function createNoise(byteCount: number, seed: number): Buffer {
  const bytes = createHash('shake256', { outputLength: byteCount + 1 })
    .update(String(seed))
    .digest()
  return bytes.subarray(1)
}

/** Content of so many bytes takes a second, and is left to the slow suite. */
const MANY_BYTES = 10_000_000

describe('cidOf', () => {
  it.each(vectors.filter(({ byteCount }) => isRepeated || byteCount < MANY_BYTES))(
    'returns for $byteCount bytes $cid, as the importer does',
    async ({ letter, byteCount, blockCount, cid }) => {
      const bytes = Buffer.alloc(byteCount, letter)
      expect(cidOf(bytes)).toBe(cid)
      const blocks = await importBlocks(bytes)
      expect([blocks.length, blocks.at(-1)?.cid]).toEqual([blockCount, cid])
    }
  )

  it('agrees with the importer on random bytes of random sizes', async () => {
    const sizes = fc.oneof(
      fc.integer({ min: 0, max: 3_000_000 }),
      fc.integer({ min: -2, max: 2 }).chain((off) => fc.integer({ min: 1, max: 9 }).map((many) => many * 262_144 + off))
    )
    await fc.assert(
      fc.asyncProperty(sizes, fc.integer(), async (size, seed) => {
        const bytes = createNoise(size, seed)
        expect(cidOf(bytes)).toBe(await importCid(bytes))
      }),
      { numRuns: sampled(6, 60) }
    )
  })
})

describe('isCid', () => {
  const cid = 'bafkreif7fs2yu2hwqtmvuo3y56hwmhe2jznqt2bmzd44zcgm5ecsrsxle4'
  it('accepts the CIDs of the test vectors', () => {
    for (const vector of vectors) expect(isCid(vector.cid)).toBe(true)
  })
  it.each([
    ['', 'an empty text'],
    [cid.toUpperCase(), 'upper case'],
    [cid.slice(0, -1), 'one character less'],
    [`${cid}a`, 'one character more'],
    [`${cid}\n`, 'a line feed more'],
    [cid.replace('b', 'z'), 'another base'],
    [cid.replace('2', '1'), 'a digit that base32 does not have'],
    ['QmPZ9gcCEpqKTo6aq61g2nXGUhM4iCL3ewB6LDXZCtioEB', 'version 0'],
    ['../../etc/passwd', 'a path']
  ])('refuses %j: %s', (text) => expect(isCid(text)).toBe(false))
})

describe('LeafHasher', () => {
  it('computes the same CID for content that arrives in parts of any size', () => {
    const sizes = fc.array(fc.integer({ min: 0, max: 300_000 }), { maxLength: 6 })
    const property = fc.property(sizes, fc.nat(), (parts, seed) => {
      const bytes = createNoise(
        parts.reduce((sum, size) => sum + size, 0),
        seed
      )
      const hasher = new LeafHasher()
      let start = 0
      for (const size of parts) hasher.update(bytes.subarray(start, (start += size)))
      const { leafHashes, byteCount, cid } = hasher.finish()
      expect(leafHashes).toHaveLength(32 * Math.max(1, Math.ceil(byteCount / 262_144)))
      expect([cid, computeCidFromLeaves(leafHashes, byteCount)]).toEqual([cidOf(bytes), cidOf(bytes)])
    })
    fc.assert(property, { numRuns: 30 })
  })

  it('returns no CID if hashes are missing or too many', () => {
    expect(computeCidFromLeaves(new Uint8Array(32), 262_145)).toBeUndefined()
    expect(computeCidFromLeaves(new Uint8Array(64), 262_144)).toBeUndefined()
  })
})
