import { lazy } from 'express-did-auth/server-kit'
import { StartError } from '../config/startup-error.js'
import { separateUser } from '../observability/health-checks.js'

/** A cid as the client answers it. */
export interface Cid {
  toString(): string
}

interface CallOptions {
  signal: AbortSignal
}

/** What we use of ipfs-http-client, whose own types cannot be read under NodeNext. Its answers are unvalidated. */
export interface IpfsClient {
  add(bytes: Uint8Array, options: CallOptions & Readonly<Record<string, unknown>>): Promise<{ cid: Cid } | undefined>
  cat(cid: string, options: CallOptions): AsyncIterable<Uint8Array>
  pin: {
    rm(cid: string, options: CallOptions): Promise<Cid | undefined>
    ls(options: CallOptions & { type: 'recursive' }): AsyncIterable<{ cid: Cid }>
  }
  version(options: CallOptions): Promise<{ version?: unknown }>
}

type MakeClient = (endpoint: ReturnType<typeof endpointOf>) => IpfsClient

/** Where the RPC API is, and the headers of every request there. */
export function endpointOf(text: string): { url: string; headers: Record<string, string> } {
  const { url, headers } = separateUser(text)
  return { url: url.replace(/\/+$/, ''), headers: { 'Accept-Encoding': 'identity', ...headers } }
}

/** Loads ipfs-http-client, once for all nodes. */
export const loadIpfsClient = lazy(async () => (await import('ipfs-http-client')).create as MakeClient)

const CLIENT = 'ipfs-http-client@60'

/** The one package that users with an IPFS node install. @throws StartError with the command that installs it */
export function assertIpfsClientInstalled(): void {
  try {
    import.meta.resolve('ipfs-http-client')
  } catch (cause) {
    throw new StartError(`IPFS_API_URL needs the package ${CLIENT}: npm install ${CLIENT}`, { cause })
  }
}
