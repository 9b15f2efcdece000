import type { Dependency } from '../observability/health-checks.js'

/** What relay and vault ask of an IPFS node. Each call has a deadline; answers are compared with the cid asked for. */
export interface IpfsNode {
  /** Pins it. @throws ServerError ERR_IPFS_UNAVAILABLE, ERR_IPFS_TIMEOUT; ERR_IPFS_BAD_RESPONSE also for another cid */
  add(cid: string, bytes: Uint8Array): Promise<void>
  /** Removes the pin; succeeds as well when there is none. @throws ServerError as `add` */
  unpin(cid: string): Promise<void>
  /** The bytes of a cid. @throws ServerError as `add`; ERR_IPFS_TIMEOUT for what a node does not have and looks for */
  read(cid: string, maxBytes: number): Promise<Uint8Array>
  /** The cids of everything that is pinned there, also by others. @throws ServerError as `add` */
  listPins(): Promise<ReadonlySet<string>>
  /** Resolves when the node answers. @throws ServerError as `add` */
  ping(): Promise<void>
}

/** What `/ready` asks of a node. The servers work without it, and without any. */
export function createIpfsDependency(node: Pick<IpfsNode, 'ping'> | undefined): Dependency {
  const own = { name: 'ipfs', isNeeded: false }
  return node === undefined
    ? { ...own, success: 'none', check: () => Promise.resolve() }
    : { ...own, check: () => node.ping() }
}
