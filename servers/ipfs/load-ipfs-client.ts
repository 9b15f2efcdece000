import { lazy } from 'express-did-auth/server-kit'
import { StartError } from '../config/startup-error.js'

/** A cid as the client answers it. */
export interface Cid {
  toString(): string
}

/** How a node has to split and pin content. */
export interface AddOptions {
  cidVersion: 1
  rawLeaves: boolean
  chunker: string
  hashAlg: string
  pin: boolean
  wrapWithDirectory: boolean
}

interface CallOptions {
  signal: AbortSignal
}

/** What we use of ipfs-http-client, whose own types cannot be read under NodeNext. What it answers is not yet checked. */
export interface IpfsClient {
  add(bytes: Uint8Array, options: AddOptions & CallOptions): Promise<{ cid: Cid } | undefined>
  cat(cid: string, options: CallOptions): AsyncIterable<Uint8Array>
  pin: {
    rm(cid: string, options: CallOptions): Promise<Cid | undefined>
    ls(options: CallOptions & { type: 'recursive' }): AsyncIterable<{ cid: Cid }>
  }
  version(options: CallOptions): Promise<{ version?: unknown }>
}

/** Where the RPC API is, and the headers of every request there. */
export interface IpfsEndpoint {
  url: string
  headers: Readonly<Record<string, string>>
}

type MakeClient = (endpoint: IpfsEndpoint) => IpfsClient

/** Separates the user from the URL: `fetch` refuses URLs that hold one, and quotes them whole. */
export function endpointOf(text: string): IpfsEndpoint {
  const url = new URL(text)
  const { username, password } = url
  url.username = ''
  url.password = ''
  const headers = { 'Accept-Encoding': 'identity' }
  const withoutSlash = url.href.replace(/\/+$/, '')
  if (username + password === '') return { url: withoutSlash, headers }
  const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')
  return { url: withoutSlash, headers: { ...headers, Authorization: `Basic ${basic}` } }
}

/** Loads ipfs-http-client, once for all nodes. */
export const loadIpfsClient = lazy(async () => (await import('ipfs-http-client')).create as MakeClient)

const CLIENT = 'ipfs-http-client@60'

/**
 * Looks for the one package that the servers leave to those who have an IPFS node, before anything imports it.
 *
 * @param resolve - throws where a package is not installed
 * @throws StartError with the command that installs it
 */
export function assertIpfsClientInstalled(resolve: (name: string) => unknown = resolveHere): void {
  try {
    resolve('ipfs-http-client')
  } catch (cause) {
    throw new StartError(`IPFS_API_URL needs the package ${CLIENT}: npm install ${CLIENT}`, { cause })
  }
}

function resolveHere(name: string): string {
  return import.meta.resolve(name)
}
