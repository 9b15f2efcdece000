import { contentOf } from '../shared/content/content-blocks.js'
import type { ContentStore } from '../shared/content/content-store.js'
import type { GroupCommit } from '../shared/content/group-commit.js'
import type { PinIntents } from './pins/pin-intents.js'
import type { PinOutbox } from './pins/pin-outbox.js'
import { assertWithin, type Quota } from './quota.js'
import type { VaultEntry, VaultIndex } from './vault-index.js'

/** What the vault is built of. All of it works on one database. */
export interface VaultParts {
  index: VaultIndex
  contents: ContentStore
  commits: GroupCommit
  intents: Pick<PinIntents, 'find' | 'want' | 'unwant'>
  /** Undefined without an IPFS node: then nothing is wanted of it, but what was pinned before is still to be unpinned. */
  outbox: Pick<PinOutbox, 'settle'> | undefined
  quota: Quota
}

/** A write that is durable here. */
export interface Written {
  /** The cid of what was written. */
  id: string
  /** Whether the node has what it should; true without a node. */
  isPinned: boolean
}

/**
 * Writes entries. Each write is one transaction of content, index and what is wanted of the node: it happens wholly, or,
 * when there is no room for it, not at all.
 */
export class Vault {
  readonly #parts: VaultParts

  constructor(parts: VaultParts) {
    this.#parts = parts
  }

  /** Adds content under a key. Content that is there already stays in its place. @throws ServerError ERR_STORAGE_FULL */
  add(did: string, key: string, bytes: Uint8Array): Promise<Written> {
    return this.#write(did, key, bytes, (id) =>
      this.#parts.index.findOne(did, key, id) === undefined ? [] : undefined
    )
  }

  /** Puts content in the place of all that is under a key. @throws ServerError ERR_STORAGE_FULL */
  replaceAll(did: string, key: string, bytes: Uint8Array): Promise<Written> {
    return this.#write(did, key, bytes, () => this.#parts.index.removeAll(did, key))
  }

  /** Puts content in the place of one entry, or adds it where there is no such entry. @throws ServerError ERR_STORAGE_FULL */
  replace(did: string, key: string, id: string, bytes: Uint8Array): Promise<Written> {
    return this.#write(did, key, bytes, (newId) =>
      [...new Set([id, newId])].flatMap((one) => this.#removeOne(did, key, one))
    )
  }

  /** Removes one entry of a key, or all; true when the node has let go of what nobody has any more. */
  async remove(did: string, key: string, id?: string): Promise<boolean> {
    const { index, commits } = this.#parts
    const dropped = await commits.write(() =>
      this.#drop(id === undefined ? index.removeAll(did, key) : this.#removeOne(did, key, id))
    )
    return this.#settle(dropped)
  }

  /** @param replace - removes the entries whose place the new one takes; undefined when there is nothing to do */
  async #write(
    did: string,
    key: string,
    bytes: Uint8Array,
    replace: (id: string) => readonly VaultEntry[] | undefined
  ): Promise<Written> {
    const { index, contents, commits, intents, outbox, quota } = this.#parts
    const content = contentOf(bytes)
    const { cid: id, byteCount } = content
    const dropped = await commits.write(() => {
      if (!index.isHeld(id)) contents.add(content)
      else if (contents.read(id) === undefined) contents.repair(content)
      // Also without a node: what is to be unpinned stays pinned then.
      if (outbox !== undefined || intents.find(id) !== undefined) intents.want(id)
      const before = index.usage(did)
      const entries = replace(id)
      if (entries === undefined) return []
      index.add(did, key, { id, byteCount })
      assertWithin(quota, before, index.usage(did))
      return this.#drop(entries)
    })
    return { id, isPinned: await this.#settle([id, ...dropped]) }
  }

  #removeOne(did: string, key: string, id: string): VaultEntry[] {
    const { index } = this.#parts
    const entry = index.findOne(did, key, id)
    if (entry === undefined) return []
    index.remove(did, key, entry)
    return [entry]
  }

  async #settle(cids: readonly string[]): Promise<boolean> {
    return this.#parts.outbox === undefined || this.#parts.outbox.settle(cids)
  }

  /** Lets go of the content of entries that are removed, where no other entry has it. */
  #drop(entries: readonly VaultEntry[]): string[] {
    const { index, contents, intents } = this.#parts
    const dropped = entries.map(({ id }) => id).filter((id) => !index.isHeld(id))
    for (const id of dropped) {
      contents.remove(id)
      intents.unwant(id)
    }
    return dropped
  }
}
