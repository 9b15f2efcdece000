import type { Dependency } from '../observability/health-checks.js'

/** IPFS node for relay and vault. Each call has a deadline. Responses are compared with the requested cid. */
export interface IpfsNode {
  /** Pins bytes. @throws ServerError ERR_IPFS_UNAVAILABLE, ERR_IPFS_TIMEOUT; ERR_IPFS_BAD_RESPONSE for another cid */
  add(cid: string, bytes: Uint8Array): Promise<void>
  /** Removes a pin. Succeeds also if there is none. @throws ServerError as `add` */
  unpin(cid: string): Promise<void>
  /** Returns the bytes of a cid. @throws ServerError as `add`; ERR_IPFS_TIMEOUT if the node does not find it */
  read(cid: string, maxBytes: number): Promise<Uint8Array>
  /** Lists the cids of all pins of the node, including pins of other programs. @throws ServerError as `add` */
  listPins(): Promise<ReadonlySet<string>>
  /** Checks whether the node is available. @throws ServerError as `add` */
  ping(): Promise<void>
}

/** Creates the check of a node for `/ready`. The servers also work without a node. */
export function createIpfsDependency(node: Pick<IpfsNode, 'ping'> | undefined): Dependency {
  const common = { name: 'ipfs', isNeeded: false }
  return node === undefined
    ? { ...common, success: 'none', check: () => Promise.resolve() }
    : { ...common, check: () => node.ping() }
}
