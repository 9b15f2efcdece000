import type { Content } from '../shared/content/content-blocks.js'
import type { KeptFile } from './kept-files.js'

/** Where the relay keeps what was posted, beyond its memory: in its own database, or on an IPFS node. */
export interface FileStore {
  /**
   * Resolves when content is kept. Kept once more, it stays for longer.
   *
   * @throws ServerError ERR_STORAGE_FULL, ERR_NODE_AWAY, ERR_NODE_SLOW, ERR_NODE_NONSENSE; DidAuthError ERR_BUSY
   */
  keep(content: Content, bytes: Uint8Array, nowSeconds: number): Promise<void>
  /**
   * Lets go of what has ended. What cannot be let go of now, is by a later call.
   *
   * @throws ServerError ERR_NODE_AWAY, ERR_NODE_SLOW, ERR_NODE_NONSENSE
   */
  sweep(nowSeconds: number, signal: AbortSignal): Promise<void>
  /**
   * What was kept after a moment and can be read here, the newest first.
   *
   * @param last - where an earlier call stopped: what follows it
   */
  keptSince(seconds: number, limit: number, last?: KeptFile): readonly KeptFile[]
  /** A file that is kept and can be read here. */
  find(cid: string): KeptFile | undefined
  /** Undefined when it is not here, or damaged. */
  read(cid: string): Uint8Array | undefined
  /** Resolves when it can work. @throws Error */
  ping(): Promise<void>
}
