import { importer } from 'ipfs-unixfs-importer'
import { fixedSize } from 'ipfs-unixfs-importer/chunker'
import { balanced } from 'ipfs-unixfs-importer/layout'
import type { CID } from 'multiformats'

/** Block of content, and its CID. */
export interface Block {
  readonly cid: string
  readonly bytes: Uint8Array
}

/** Splits content into blocks with an independent implementation. The leaves come first, the root last. */
export async function importBlocks(content: Uint8Array): Promise<Block[]> {
  const blocks: Block[] = []
  const store = {
    put: (cid: CID, bytes: Uint8Array): CID => {
      blocks.push({ cid: cid.toString(), bytes })
      return cid
    },
    get: (): never => {
      throw new Error('the importer must not read blocks')
    }
  }
  const options = {
    cidVersion: 1,
    rawLeaves: true,
    wrapWithDirectory: false,
    chunker: fixedSize({ chunkSize: 262_144 }),
    layout: balanced({ maxChildrenPerNode: 174 })
  } as const
  for await (const { cid } of importer([{ content }], store, options)) {
    const root = blocks.find((block) => block.cid === cid.toString())!
    return [...blocks.filter((block) => block !== root), root]
  }
  throw new Error('the importer returned no root')
}
