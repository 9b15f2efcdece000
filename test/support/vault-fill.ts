import { entryOf } from './content-stores.js'
import type { TestVault } from './vault-app.js'

/** Adds entries as the vault would, in this order and without HTTP. */
export async function fillVault(
  { store }: Pick<TestVault, 'store'>,
  did: string,
  entries: readonly (readonly [key: string, content: string])[]
): Promise<void> {
  const small: Promise<unknown>[] = []
  for (const [key, content] of entries) {
    const write = store.writeEntry(entryOf(key, content, { did, quota: { maxBytes: Infinity, maxEntries: Infinity } }))
    // Small ones share a commit, in the order of their calls. Large ones are uploaded first, and would overtake each other.
    if (content.length > 60_000) await write
    else small.push(write)
  }
  await Promise.all(small)
}
