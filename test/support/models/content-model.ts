import fc from 'fast-check'
import type { EntryWrite } from '../../../servers/content/content-store.js'
import { computeCid, createEntry, createLargeBytes, readTexts, type TestStore } from '../servers/content-stores.js'

/** Write to or removal from the model. Its texts need not exist in the model. */
export interface ModelVerb {
  readonly verb: 'add' | 'replaceAll' | 'replaceOne' | 'removeAll' | 'removeOne'
  readonly did: string
  readonly key: string
  readonly text: string
  /** Text that `replaceOne` and `removeOne` identify by its CID. */
  readonly named: string
}

export type ModelOutcome = 'done' | 'ERR_STORAGE_FULL'

const countBytes = (texts: readonly string[]): number => texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)

/** Expected content of a vault: lists of texts by owner and key, in the order of their writes. */
export class ContentModel {
  readonly #lists = new Map<string, { did: string; texts: string[] }>()
  readonly #quota: EntryWrite['quota']

  constructor(quota: EntryWrite['quota']) {
    this.#quota = quota
  }

  /** Applies a verb, and returns the result that the vault should return. */
  apply({ verb, did, key, text, named }: ModelVerb): ModelOutcome {
    const before = this.textsOf(did, key)
    const set = (texts: string[]): ModelOutcome => {
      this.#lists.set(did + key, { did, texts })
      return 'done'
    }
    if (verb === 'removeAll') return set([])
    if (verb === 'removeOne') return set(before.filter((text) => text !== named))
    if (verb === 'add' && before.includes(text)) return 'done'
    const others = before.filter((stored) => stored !== named && stored !== text)
    const list = [...{ add: before, replaceAll: [], replaceOne: others }[verb], text]
    const used = this.readUsage(did)
    const bytes = used.byteCount - countBytes(before) + countBytes(list)
    const entries = used.entryCount - before.length + list.length
    const { maxBytes, maxEntries } = this.#quota
    const isOver = bytes > Math.max(maxBytes, used.byteCount) || entries > Math.max(maxEntries, used.entryCount)
    return isOver ? 'ERR_STORAGE_FULL' : set(list)
  }

  textsOf(did: string, key: string): string[] {
    return this.#lists.get(did + key)?.texts ?? []
  }

  readUsage(did: string): { byteCount: number; entryCount: number } {
    const texts = [...this.#lists.values()].flatMap((list) => (list.did === did ? list.texts : []))
    return { byteCount: countBytes(texts), entryCount: texts.length }
  }

  /** Returns every distinct text of all lists. */
  stored(): string[] {
    return [...new Set([...this.#lists.values()].flatMap(({ texts }) => texts))]
  }
}

const DIDS = ['did:ethr:rsk:0xa', 'did:ethr:rsk:0xb']
const KEYS = ['a', 'ключ']
/** Texts; the last two are stored as objects. */
const TEXTS = [
  '',
  'x',
  'yy',
  '💥',
  String(createLargeBytes('large', 66_000)),
  String(createLargeBytes('larger', 70_000))
]
const QUOTA = { maxBytes: 140_000, maxEntries: 5 }

interface Operation extends Omit<ModelVerb, 'verb'> {
  readonly verb: ModelVerb['verb'] | 'collect'
  readonly condition: 'none' | 'current' | 'previous' | 'any' | 'absent'
  /** Index of one of two stores. */
  readonly store: number
}

/** Random sequences of operations. With few users and keys, operations on the same key are likely. */
export const operations: fc.Arbitrary<Operation[]> = fc.array(
  fc.record({
    verb: fc.constantFrom('add', 'add', 'add', 'replaceAll', 'replaceOne', 'removeAll', 'removeOne', 'collect'),
    condition: fc.constantFrom('none', 'none', 'none', 'current', 'previous', 'any', 'absent'),
    store: fc.nat(1),
    did: fc.constantFrom(...DIDS),
    key: fc.constantFrom(...KEYS),
    text: fc.constantFrom(...TEXTS),
    named: fc.constantFrom(...TEXTS)
  }),
  { minLength: 30, maxLength: 30 }
)

/**
 * Runs operations on two stores that share everything, and on the model.
 *
 * @returns the differences, and the contents that must be objects
 */
export async function runOnModel(
  stores: readonly TestStore[],
  sequence: readonly Operation[]
): Promise<{ faults: string[]; large: string[] }> {
  for (const did of DIDS) for (const key of KEYS) await stores[0]!.removeEntries({ did, key })
  const model = new ContentModel(QUOTA)
  const faults: string[] = []
  let previousEtag = '"none"'
  for (const operation of sequence) {
    const { verb, did, key, condition } = operation
    const store = stores[operation.store]!
    if (verb === 'collect') {
      await store.collectGarbage(0, { isFull: true })
      continue
    }
    const before = model.textsOf(did, key)
    const { etag } = await store.listEntries({ did, key })
    const isMet = {
      none: true,
      current: true,
      previous: etag === previousEtag,
      any: before.length > 0,
      absent: before.length === 0
    }[condition]
    const conditions = {
      none: {},
      current: { ifMatch: [etag] },
      previous: { ifMatch: [previousEtag] },
      any: { ifMatch: '*' as const },
      absent: { ifNoneMatch: '*' as const }
    }[condition]
    const expected = isMet ? model.apply({ ...operation, verb }) : 'ERR_PRECONDITION'
    const outcome = await run(store, { ...operation, verb }, conditions)
    if (outcome !== expected) faults.push(`${verb} is ${outcome}, not ${expected}`)
    const list = model.textsOf(did, key)
    const texts = await readTexts(stores[1 - operation.store]!, key, did)
    if (isDifferent(texts, list)) faults.push(`${verb} left ${toShortText(texts)}, not ${toShortText(list)}`)
    const isChanged = (await store.listEntries({ did, key })).etag !== etag
    if (isChanged !== isDifferent(list, before) && !verb.startsWith('replace'))
      faults.push(`the ETag ${isChanged ? 'changed' : 'stayed'} by ${verb}`)
    if (isChanged) previousEtag = etag
    if (JSON.stringify(await store.readUsage(did)) !== JSON.stringify(model.readUsage(did)))
      faults.push(`${verb} leaves a wrong usage`)
  }
  return { faults, large: model.stored().filter((text) => text.length > 65_536) }
}

async function run(
  store: TestStore,
  { verb, did, key, text, named }: ModelVerb,
  conditions: Pick<EntryWrite, 'ifMatch' | 'ifNoneMatch'>
): Promise<string> {
  const [entryId, cid] = [{ did, key, ...conditions }, computeCid(named)]
  try {
    if (verb === 'removeAll') await store.removeEntries(entryId)
    else if (verb === 'removeOne') await store.removeEntries({ ...entryId, cid })
    else {
      const replaces = ({ add: 'nothing', replaceAll: 'all', replaceOne: { cid } } as const)[verb]
      await store.writeEntry(createEntry(key, text, { ...entryId, replaces, quota: QUOTA }))
    }
    return 'done'
  } catch (error) {
    return String((error as { code?: unknown }).code)
  }
}

const isDifferent = (left: readonly string[], right: readonly string[]): boolean =>
  JSON.stringify(left) !== JSON.stringify(right)
const toShortText = (texts: readonly string[]): string => texts.map((text) => text.slice(0, 8)).join()
