import fc from 'fast-check'
import { contentOf } from '../../servers/shared/content/content-blocks.js'
import type { VaultUser } from './vault-app.js'

export const DIDS = 4
const KEYS = ['a', 'b', 'ключ']
const CONTENTS = ['', 'x', 'y', 'zz', '💥', 'long enough to matter']
/** So small that random writes often find no room. */
export const MODEL_QUOTA = { VAULT_MAX_BYTES_PER_DID: '30', VAULT_MAX_ENTRIES_PER_DID: '5' }
const MAX_BYTES = 30
const MAX_ENTRIES = 5

/** One request of one of the users. The id that it names is that of one of the contents, there or not. */
export interface Operation {
  verb: 'post' | 'put' | 'putOne' | 'delete' | 'deleteOne'
  did: number
  key: number
  content: number
  id: number
}

/** Sequences of 50 operations; writes of one key are likely to meet. */
export const operations: fc.Arbitrary<Operation[]> = fc.array(
  fc.record({
    verb: fc.constantFrom('post', 'post', 'post', 'put', 'putOne', 'putOne', 'delete', 'deleteOne', 'deleteOne'),
    did: fc.nat(DIDS - 1),
    key: fc.nat(KEYS.length - 1),
    content: fc.nat(CONTENTS.length - 1),
    id: fc.nat(CONTENTS.length - 1)
  }),
  { minLength: 50, maxLength: 50 }
)

const idOf = (content: string): string => contentOf(Buffer.from(content)).cid
const bytesOf = (contents: readonly string[]): number =>
  contents.reduce((sum, content) => sum + Buffer.byteLength(content), 0)

/** What the specification says a vault holds: lists of contents by user and key, the last written last. */
export class VaultModel {
  readonly #vaults = Array.from({ length: DIDS }, () => new Map<string, string[]>())

  /** Applies an operation, and tells the answer that it should get. */
  apply({ verb, did, key, content, id }: Operation): { status: number; id?: string } {
    const vault = this.#vaults[did]!
    const name = KEYS[key]!
    const before = vault.get(name) ?? []
    const text = CONTENTS[content]!
    const named = CONTENTS[id]!
    if (verb === 'delete' || verb === 'deleteOne') {
      vault.set(name, verb === 'delete' ? [] : before.filter((one) => one !== named))
      return { status: 200 }
    }
    const created = verb === 'post' ? 201 : 200
    if (verb === 'post' && before.includes(text)) return { status: created, id: idOf(text) }
    const stays = verb === 'post' ? before : verb === 'put' ? [] : before.filter((one) => one !== named && one !== text)
    const others = [...vault].flatMap(([one, contents]) => (one === name ? [] : contents))
    const after = [...others, ...stays, text]
    const isMore = {
      bytes: bytesOf(after) > bytesOf([...others, ...before]),
      entries: stays.length + 1 > before.length
    }
    if ((bytesOf(after) > MAX_BYTES && isMore.bytes) || (after.length > MAX_ENTRIES && isMore.entries)) {
      return { status: 507 }
    }
    vault.set(name, [...stays, text])
    return { status: created, id: idOf(text) }
  }

  /** What is under each key of a user. */
  contentsOf(did: number): { key: string; contents: string[] }[] {
    return KEYS.map((key) => ({ key, contents: this.#vaults[did]!.get(key) ?? [] }))
  }

  /** The ids of everything that anybody has. */
  heldIds(): string[] {
    return [...new Set(this.#vaults.flatMap((vault) => [...vault.values()].flat().map(idOf)))].sort()
  }
}

/** Asks the vault for an operation. */
export async function perform(
  users: readonly VaultUser[],
  operation: Operation
): Promise<{ status: number; id?: string }> {
  const user = users[operation.did]!
  const key = encodeURIComponent(KEYS[operation.key]!)
  const content = CONTENTS[operation.content]!
  const id = idOf(CONTENTS[operation.id]!)
  const { status, body } = await {
    post: () => user.post(key, content),
    put: () => user.put(key, content),
    putOne: () => user.put(`${key}/${id}`, content),
    delete: () => user.delete(key),
    deleteOne: () => user.delete(`${key}/${id}`)
  }[operation.verb]()
  const received = (body as { id?: string }).id
  return { status, ...(received !== undefined && { id: received }) }
}
