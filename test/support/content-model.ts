import fc from 'fast-check'
import type { EntryWrite } from '../../servers/storage/content-store.js'
import { cidOf, entryOf, largeBytes, textsOf, type TestStore } from './content-stores.js'

const DIDS = ['did:ethr:rsk:0xa', 'did:ethr:rsk:0xb']
const KEYS = ['a', 'ключ']
/** The last two are objects. */
const TEXTS = ['', 'x', 'yy', '💥', String(largeBytes('large', 66_000)), String(largeBytes('larger', 70_000))]
const QUOTA = { maxBytes: 140_000, maxEntries: 5 }

/** One verb. The cid that it names is that of one of the texts, there or not; the store is one of two. */
export interface Operation {
  verb: 'add' | 'replaceAll' | 'replaceOne' | 'removeAll' | 'removeOne' | 'collect'
  condition: 'none' | 'current' | 'old' | 'any' | 'absent'
  store: number
  did: number
  key: number
  text: number
  named: number
}

/** Sequences of operations; those of one key are likely to meet. */
export const operations: fc.Arbitrary<Operation[]> = fc.array(
  fc.record({
    verb: fc.constantFrom('add', 'add', 'add', 'replaceAll', 'replaceOne', 'removeAll', 'removeOne', 'collect'),
    condition: fc.constantFrom('none', 'none', 'none', 'current', 'old', 'any', 'absent'),
    store: fc.nat(1),
    did: fc.nat(DIDS.length - 1),
    key: fc.nat(KEYS.length - 1),
    text: fc.nat(TEXTS.length - 1),
    named: fc.nat(TEXTS.length - 1)
  }),
  { minLength: 30, maxLength: 30 }
)

/** What a vault holds: lists of texts by owner and key, the last written last. */
export class ContentModel {
  readonly #lists = new Map<string, string[]>()
  readonly #stores: readonly TestStore[]
  #oldEtag = '"none"'

  constructor(stores: readonly TestStore[]) {
    this.#stores = stores
  }

  /** Applies an operation to both; answers what differs. */
  async apply(operation: Operation): Promise<string[]> {
    const { verb, store: number, did: owner, key: name, text: index, named: namedIndex } = operation
    const [store, did, key] = [this.#stores[number]!, DIDS[owner]!, KEYS[name]!]
    const [text, named] = [TEXTS[index]!, TEXTS[namedIndex]!]
    if (verb === 'collect') {
      await store.collectGarbage(0, { isFull: true })
      return []
    }
    const before = this.#lists.get(did + key) ?? []
    const { etag } = await store.listEntries({ did, key })
    const condition = this.#conditionOf(operation, etag)
    const expected = this.#expected(operation, etag, before, text, named, did)
    const outcome = await this.#run(store, operation, { did, key, ...condition }, text, named)
    const faults = outcome === expected.code ? [] : [`${verb} is ${outcome}, not ${expected.code}`]
    this.#lists.set(did + key, expected.list)
    const found = await textsOf(this.#stores[1 - number]!, key, did)
    if (isOther(found, expected.list)) faults.push(`${verb} left ${shortOf(found)}, not ${shortOf(expected.list)}`)
    const changed = (await store.listEntries({ did, key })).etag !== etag
    if (changed !== isOther(expected.list, before) && verb !== 'replaceAll' && verb !== 'replaceOne') {
      faults.push(`the ETag ${changed ? 'changed' : 'stayed'} by ${verb}`)
    }
    if (changed) this.#oldEtag = etag
    const usage = await store.usageOf(did)
    const [byteCount, entryCount] = this.#usage(did)
    if (usage.byteCount !== byteCount || usage.entryCount !== entryCount) faults.push(`${verb} is counted wrong`)
    return faults
  }

  /** Contents of any list that are objects. */
  largeContents(): Set<string> {
    return new Set(
      [...this.#lists.values()]
        .flat()
        .filter((text) => text.length > 65_536)
        .map(cidOf)
    )
  }

  #conditionOf({ condition }: Operation, etag: string): Pick<EntryWrite, 'ifMatch' | 'ifNoneMatch'> {
    if (condition === 'none') return {}
    if (condition === 'absent') return { ifNoneMatch: '*' }
    return { ifMatch: condition === 'any' ? '*' : [condition === 'current' ? etag : this.#oldEtag] }
  }

  #expected(
    operation: Operation,
    etag: string,
    before: string[],
    text: string,
    named: string,
    did: string
  ): { code: string; list: string[] } {
    const { verb, condition } = operation
    const isMet =
      condition === 'none' ||
      condition === 'current' ||
      (condition === 'old' && etag === this.#oldEtag) ||
      (condition === 'any' && before.length > 0) ||
      (condition === 'absent' && before.length === 0)
    if (!isMet) return { code: 'ERR_PRECONDITION', list: before }
    if (verb === 'removeAll') return { code: 'done', list: [] }
    if (verb === 'removeOne') return { code: 'done', list: before.filter((one) => one !== named) }
    if (verb === 'add' && before.includes(text)) return { code: 'done', list: before }
    const stays =
      verb === 'add' ? before : verb === 'replaceAll' ? [] : before.filter((one) => one !== named && one !== text)
    const list = [...stays, text]
    const [usedBytes, usedEntries] = this.#usage(did)
    const bytes = usedBytes - bytesOf(before) + bytesOf(list)
    const entries = usedEntries - before.length + list.length
    const isOver = bytes > Math.max(QUOTA.maxBytes, usedBytes) || entries > Math.max(QUOTA.maxEntries, usedEntries)
    return isOver ? { code: 'ERR_STORAGE_FULL', list: before } : { code: 'done', list }
  }

  async #run(
    store: TestStore,
    { verb }: Operation,
    place: Pick<EntryWrite, 'did' | 'key' | 'ifMatch' | 'ifNoneMatch'>,
    text: string,
    named: string
  ): Promise<string> {
    const cid = cidOf(named)
    try {
      if (verb === 'removeAll') await store.removeEntries(place)
      else if (verb === 'removeOne') await store.removeEntries({ ...place, cid })
      else {
        const replaces = verb === 'add' ? 'nothing' : verb === 'replaceAll' ? 'all' : { cid }
        await store.writeEntry(entryOf(place.key, text, { ...place, replaces, quota: QUOTA }))
      }
      return 'done'
    } catch (error) {
      return String((error as { code?: unknown }).code)
    }
  }

  #usage(did: string): [byteCount: number, entryCount: number] {
    const lists = KEYS.map((key) => this.#lists.get(did + key) ?? [])
    return [lists.reduce((sum, list) => sum + bytesOf(list), 0), lists.flat().length]
  }
}

const bytesOf = (texts: readonly string[]): number => texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
const isOther = (one: readonly string[], other: readonly string[]): boolean =>
  JSON.stringify(one) !== JSON.stringify(other)
const shortOf = (texts: readonly string[]): string => texts.map((text) => text.slice(0, 8)).join()
