import type { Dependency } from '../observability/health-checks.js'

/** IPFS node as relay and vault use it. Each call has a deadline; responses are compared with the requested cid. */
export interface IpfsNode {
  /** Pins bytes. @throws ServerError ERR_IPFS_UNAVAILABLE, ERR_IPFS_TIMEOUT; ERR_IPFS_BAD_RESPONSE for another cid */
  add(cid: string, bytes: Uint8Array): Promise<void>
  /** Removes a pin; succeeds as well if there is none. @throws ServerError as `add` */
  unpin(cid: string): Promise<void>
  /** Returns the bytes of a cid. @throws ServerError as `add`; ERR_IPFS_TIMEOUT if the node searches for it in vain */
  read(cid: string, maxBytes: number): Promise<Uint8Array>
  /** Lists the cids of all pins of the node, also those of others. @throws ServerError as `add` */
  listPins(): Promise<ReadonlySet<string>>
  /** Checks that the node answers. @throws ServerError as `add` */
  ping(): Promise<void>
}

/** Creates the check of a node for `/ready`. The servers also work without a node. */
export function createIpfsDependency(node: Pick<IpfsNode, 'ping'> | undefined): Dependency {
  const own = { name: 'ipfs', isNeeded: false }
  return node === undefined
    ? { ...own, success: 'none', check: () => Promise.resolve() }
    : { ...own, check: () => node.ping() }
}
