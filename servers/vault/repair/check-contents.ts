import { contentOf } from '../../shared/content/content-blocks.js'
import type { ContentStore } from '../../shared/content/content-store.js'
import type { SqliteFile } from '../../shared/content/database.js'
import type { IpfsNode } from '../../shared/ipfs/ipfs-node.js'
import { ServerError } from '../../shared/http/server-error.js'
import { counted, type Finding } from './finding.js'
import type { VaultEntry, VaultIndex } from '../vault-index.js'

/** What the checks work on. */
export interface CheckParts {
  database: SqliteFile
  index: VaultIndex
  contents: ContentStore
  /** Undefined: none is configured. */
  node: IpfsNode | undefined
  /** Nothing is written then, here or on the node. */
  isDryRun: boolean
}

const BATCH = 200
/** Questions to the node at once: what it does not have, it looks for until the deadline. */
const QUESTIONS = 8
const MAX_NAMED = 10

/** Whether the content of every entry is here and undamaged; else it is fetched from the node and put back. */
export async function checkContents(parts: CheckParts): Promise<Finding> {
  const { database, index, contents } = parts
  const next = database.prepare<[string, number], VaultEntry>(
    'SELECT cid AS id, max(byte_count) AS byteCount FROM entries WHERE cid > ? GROUP BY cid ORDER BY cid LIMIT ?'
  )
  // In one moment: beside a running server, an entry may go between two looks.
  const isLost = database.transaction(({ id }: VaultEntry) => index.isHeld(id) && contents.read(id) === undefined)
  const fetcher = new Fetcher(parts)
  let total = 0
  let batch = next.all('', BATCH)
  while (batch.length > 0) {
    total += batch.length
    const lost = batch.filter((entry) => isLost(entry))
    for (let start = 0; start < lost.length; start += QUESTIONS) {
      await Promise.all(lost.slice(start, start + QUESTIONS).map((entry) => fetcher.fetch(entry)))
    }
    batch = next.all(batch.at(-1)?.id ?? '', BATCH)
  }
  const { fetched, lostCount } = fetcher
  const remedy = parts.isDryRun ? 'to put back from the IPFS node' : 'put back from the IPFS node'
  const text = [
    `content: ${counted(total, 'content')} in entries`,
    ...(fetched > 0 ? [`${fetched} ${remedy}`] : []),
    ...(lostCount > 0 ? [`${lostCount} lost: ${fetcher.names()}`] : []),
    ...(fetched + lostCount === 0 ? ['all undamaged'] : [])
  ].join(', ')
  return { text, repairs: fetched, faults: lostCount }
}

/** Fetches what is lost here, as long as the node answers. */
class Fetcher {
  fetched = 0
  lostCount = 0
  readonly #parts: CheckParts
  readonly #named: string[] = []
  #isAway: boolean

  constructor(parts: CheckParts) {
    this.#parts = parts
    this.#isAway = parts.node === undefined
  }

  async fetch(entry: VaultEntry): Promise<void> {
    if (await this.#isFetched(entry)) {
      this.fetched += 1
      return
    }
    this.lostCount += 1
    if (this.#named.length < MAX_NAMED) this.#named.push(entry.id)
  }

  names(): string {
    const more = this.lostCount - this.#named.length
    return this.#named.join(' ') + (more > 0 ? ` and ${more} more` : '')
  }

  async #isFetched({ id, byteCount }: VaultEntry): Promise<boolean> {
    const { database, index, contents, node, isDryRun } = this.#parts
    if (this.#isAway || node === undefined) return false
    try {
      const content = contentOf(await node.read(id, byteCount))
      if (content.cid !== id) return false
      const repair = database.transaction(() => {
        if (index.isHeld(id)) contents.repair(content)
      })
      if (!isDryRun) repair.immediate()
      return true
    } catch (error) {
      if (!(error instanceof ServerError)) throw error
      if (error.code === 'ERR_NODE_AWAY') this.#isAway = true
      return false
    }
  }
}
