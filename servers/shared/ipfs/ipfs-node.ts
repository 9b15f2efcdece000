/**
 * What relay and vault ask of an IPFS node. Each call ends within a deadline; what a node answers is compared with what
 * content addressing says, and never believed.
 */
export interface IpfsNode {
  /**
   * Adds content and pins it.
   *
   * @throws ServerError ERR_NODE_AWAY, ERR_NODE_SLOW, ERR_NODE_NONSENSE when the node says another cid than ours
   */
  add(cid: string, bytes: Uint8Array): Promise<void>
  /** Takes the pin off; good as well when there is none. @throws ServerError as `add` */
  unpin(cid: string): Promise<void>
  /**
   * The bytes of content, which have its cid.
   *
   * @throws ServerError as `add`; also ERR_NODE_SLOW for what the node does not have, because it looks without end
   */
  read(cid: string, maxBytes: number): Promise<Uint8Array>
  /** Whether content is pinned there, by whomever. @throws ServerError as `add` */
  isPinned(cid: string): Promise<boolean>
  /** The cids of everything that is pinned there, also by others. @throws ServerError as `add` */
  listPins(): Promise<ReadonlySet<string>>
  /** Resolves when the node answers. @throws ServerError as `add` */
  ping(signal: AbortSignal): Promise<void>
}
