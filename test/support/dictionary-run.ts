import { contentOf } from '../../servers/shared/content/content-blocks.js'
import { numbersFrom } from '../protocol/random-numbers.js'
import { drawWrite, Dictionary, type VaultWrite } from './dictionary.js'
import { drained, faultsInside, type VaultInside } from './vault-parts.js'

const dids = ['did:ethr:rsk:0xa', 'did:ethr:rsk:0xb', 'did:ethr:rsk:0xc', 'did:ethr:rsk:0xd']
const keys = ['letters', 'photos']
/** Few, so that users often share them; two share a block, one is a tree, one is empty. */
const contents = ['', 'one', 'two', 'three', 'four', 'a'.repeat(262_144), 'a'.repeat(262_144) + 'b'].map((text) =>
  contentOf(Buffer.from(text))
)
const bytesOf = contents.map(({ blocks }, index) =>
  index < 6 ? blocks[0]!.bytes : Buffer.concat(blocks.slice(0, 2).map(({ bytes }) => bytes))
)

/**
 * Runs sequences of random writes against a vault and a model, and answers every difference, pins included. Writes are
 * only waited for now and then, so that calls to the node race with later writes.
 *
 * @param pins - what is pinned on the node, asked without the code under test
 */
export async function runAgainstDictionary(
  inside: VaultInside,
  pins: () => Promise<readonly string[]>,
  run: { sequences: number; operations: number; seed: number }
): Promise<string[]> {
  const draw = numbersFrom(run.seed)
  const differences: string[] = []
  for (let sequence = 0; sequence < run.sequences && differences.length < 10; sequence += 1) {
    const model = new Dictionary()
    let waiting: Promise<unknown>[] = dids.flatMap((did) => keys.map((key) => inside.vault.remove(did, key)))
    for (let operation = 0; operation < run.operations; operation += 1) {
      const write = drawWrite(draw, dids, keys, contents.length)
      model.apply(write)
      waiting.push(carryOut(inside, write))
      if (draw(4) > 0) continue
      await Promise.all(waiting)
      waiting = []
    }
    await Promise.all(waiting)
    // A call that failed once is made again after a minute of doubt.
    await drained(inside, 75_000)
    for (const did of dids) {
      for (const key of keys) {
        const found = inside.index.find(did, key).map(({ id }) => contents.findIndex(({ cid }) => cid === id))
        const expected = model.find(did, key)
        if (found.join() !== expected.join()) differences.push(`entries ${found.join()} for ${expected.join()}`)
      }
    }
    const wanted = model.contents().map((index) => contents[index]!.cid)
    const found = await pins()
    if ([...found].sort().join() !== wanted.sort().join()) differences.push(`pins ${found.join()} for ${wanted.join()}`)
    if (inside.intents.countOpen() > 0) differences.push(`${inside.intents.countOpen()} pins pending`)
    differences.push(...faultsInside(inside))
  }
  return differences
}

function carryOut({ vault }: VaultInside, { verb, did, key, place, content }: VaultWrite): Promise<unknown> {
  const bytes = bytesOf[content]!
  const id = contents[place]!.cid
  return {
    add: () => vault.add(did, key, bytes),
    replaceAll: () => vault.replaceAll(did, key, bytes),
    replace: () => vault.replace(did, key, id, bytes),
    removeAll: () => vault.remove(did, key),
    remove: () => vault.remove(did, key, id)
  }[verb]()
}
