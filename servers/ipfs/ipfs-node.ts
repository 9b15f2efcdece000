/**
 * What relay and vault ask of an IPFS node. Each call ends within a deadline. What a node answers is compared with the
 * cid that was asked for, and never believed.
 */
export interface IpfsNode {
  /**
   * Adds content and pins it.
   *
   * @throws ServerError ERR_IPFS_UNAVAILABLE, ERR_IPFS_TIMEOUT; ERR_IPFS_BAD_RESPONSE also when the node names another cid
   */
  add(cid: string, bytes: Uint8Array): Promise<void>
  /** Removes the pin; succeeds as well when there is none. @throws ServerError as `add` */
  unpin(cid: string): Promise<void>
  /**
   * The bytes of content, which have its cid.
   *
   * @throws ServerError as `add`; also ERR_IPFS_TIMEOUT for content that the node does not have, because it looks without end
   */
  read(cid: string, maxBytes: number): Promise<Uint8Array>
  /** The cids of everything that is pinned there, also by others. @throws ServerError as `add` */
  listPins(): Promise<ReadonlySet<string>>
  /** Resolves when the node answers. @throws ServerError as `add` */
  ping(signal: AbortSignal): Promise<void>
}
