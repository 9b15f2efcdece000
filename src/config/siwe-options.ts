import { acceptNumber, isHost, path, toNetworkRemedy, type Rule } from './rules.js'
import { isUserNetwork, networkOfDid, toNetwork } from '../protocol/did.js'

/** Options of the login by an EIP-4361 message. */
export interface SiweOptions {
  /** Path prefix of the routes `nonce`, `verify` and `logout`. Default `/siwe`. */
  path?: string | undefined
  /**
   * Network in the DIDs of these users, whatever chain their messages name; `''` or `ethereum` for Ethereum. Default:
   * the network of `serviceDid`. It must not be the number of a chain in `contractWallets`.
   */
  network?: string | undefined
  /** Validity of a nonce, in seconds, 30 to 3,600. Default 300. */
  nonceSeconds?: number | undefined
  /**
   * Further hosts of pages whose messages are accepted, such as `app.example:8443`, or a synchronous function that
   * returns `true` for them. The hosts of `serviceUrl`, `loginDomains` and `trustedOrigins` are always accepted.
   */
  domains?: readonly string[] | ((domain: string) => boolean) | undefined
}

/** Rules of the options of EIP-4361. */
export const siweRules: Readonly<Record<keyof SiweOptions, Rule>> = {
  path,
  network: { holds: isUserNetwork, remedy: toNetworkRemedy('give a network such as "rsk", "" for Ethereum') },
  nonceSeconds: acceptNumber(30, 3_600, 'give a number of seconds, 30 to 3600'),
  domains: {
    holds: (value) => typeof value === 'function' || (Array.isArray(value) && value.every(isHost)),
    remedy: 'give an array of hosts as browsers spell them, such as "app.example", or a function of a host'
  }
}

/** Complete options of EIP-4361. The network is undefined if none is given and `serviceDid` is not a did:ethr. */
export type CompleteSiweOptions = Required<Pick<SiweOptions, 'network'>> & {
  [Option in 'path' | 'nonceSeconds' | 'domains']: NonNullable<SiweOptions[Option]>
}

/** Completes the options of EIP-4361; undefined if it is off. */
export function completeSiwe(
  siwe: true | SiweOptions | undefined,
  serviceDid: string | undefined
): CompleteSiweOptions | undefined {
  if (siwe === undefined) return undefined
  const { path = '/siwe', network, nonceSeconds = 300, domains = [] } = siwe === true ? {} : siwe
  const serviceNetwork = serviceDid === undefined ? 'rsk' : networkOfDid(serviceDid)
  return {
    path: path.replace(/\/$/, ''),
    network: network === undefined ? serviceNetwork : toNetwork(network),
    nonceSeconds,
    domains
  }
}
