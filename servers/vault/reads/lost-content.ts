import type { Logger } from 'pino'
import { contentOf } from '../../shared/content/content-blocks.js'
import type { ContentStore } from '../../shared/content/content-store.js'
import { describeError } from '../../shared/watch/describe-error.js'
import type { GroupCommit } from '../../shared/content/group-commit.js'
import type { IpfsNode } from '../../shared/ipfs/ipfs-node.js'
import { ServerError } from '../../shared/http/server-error.js'
import type { VaultEntry, VaultIndex } from '../vault-index.js'

/** Strangers may read, and each question to the node may take seconds. */
const MAX_AT_ONCE = 16

/** What lost content comes back from, and where to. */
export interface LostContentParts {
  index: VaultIndex
  contents: ContentStore
  commits: GroupCommit
  node: IpfsNode | undefined
  log: Logger
}

/** Brings content back that is lost or damaged here and that the IPFS node still has. */
export class LostContent {
  readonly #parts: LostContentParts
  /** By cid. */
  readonly #underWay = new Map<string, Promise<Uint8Array>>()

  constructor(parts: LostContentParts) {
    this.#parts = parts
  }

  /** The bytes of an entry's content, which are also put back. @throws ServerError ERR_CONTENT_LOST */
  fetch(entry: VaultEntry): Promise<Uint8Array> {
    const underWay = this.#underWay.get(entry.id)
    if (underWay !== undefined) return underWay
    if (this.#underWay.size >= MAX_AT_ONCE) return Promise.reject(new ServerError('ERR_CONTENT_LOST'))
    const fetched = this.#fetch(entry).finally(() => this.#underWay.delete(entry.id))
    this.#underWay.set(entry.id, fetched)
    return fetched
  }

  async #fetch({ id, byteCount }: VaultEntry): Promise<Uint8Array> {
    const { index, contents, commits, node, log } = this.#parts
    if (node === undefined) throw new ServerError('ERR_CONTENT_LOST')
    const bytes = await node.read(id, byteCount).catch((cause: unknown) => {
      throw new ServerError('ERR_CONTENT_LOST', { cause })
    })
    const content = contentOf(bytes)
    if (content.cid !== id) throw new ServerError('ERR_CONTENT_LOST')
    try {
      await commits.write(() => {
        if (index.isHeld(id)) contents.repair(content)
      })
      log.warn({ event: 'content-repaired' }, 'lost content was read from the IPFS node and put back')
    } catch (error) {
      // Whoever reads has it all the same.
      log.error({ event: 'repair-failed', ...describeError(error) }, 'lost content could not be put back')
    }
    return bytes
  }
}
