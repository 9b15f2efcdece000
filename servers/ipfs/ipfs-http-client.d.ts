// The part of `ipfs-http-client` that is used. Its own types do not work under NodeNext, and a build without the IPFS
// client does not install it. Results are unverified.
declare module 'ipfs-http-client' {
  /** A cid as the client returns it. */
  export type Cid = { toString(): string }

  type CallOptions = { signal: AbortSignal }

  export interface IpfsClient {
    add(bytes: Uint8Array, options: CallOptions & Readonly<Record<string, unknown>>): Promise<{ cid: Cid } | undefined>
    cat(cid: string, options: CallOptions): AsyncIterable<Uint8Array>
    pin: {
      rm(cid: string, options: CallOptions): Promise<Cid | undefined>
      ls(options: CallOptions & { type: 'recursive' }): AsyncIterable<{ cid: Cid }>
    }
    version(options?: CallOptions): Promise<{ version?: unknown }>
  }

  export function create(endpoint: { url: string; headers?: Record<string, string> }): IpfsClient
}
