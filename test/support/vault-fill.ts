import { contentOf } from '../../servers/shared/content/content-blocks.js'
import { ContentStore } from '../../servers/shared/content/content-store.js'
import { VaultIndex } from '../../servers/vault/vault-index.js'
import type { TestVault } from './vault-app.js'

/** Adds entries as the vault would, in one transaction and without HTTP. All contents are new. */
export function fillVault(
  { database }: Pick<TestVault, 'database'>,
  did: string,
  entries: readonly (readonly [key: string, content: string])[]
): void {
  const index = new VaultIndex(database)
  const contents = new ContentStore(database)
  database.transaction(() => {
    for (const [key, text] of entries) {
      const content = contentOf(Buffer.from(text))
      contents.add(content)
      index.add(did, key, { id: content.cid, byteCount: content.byteCount })
    }
  })()
}
