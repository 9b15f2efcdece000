import { isObject } from '../../protocol/json.js'

/** A node-redis client, or any object that sends a command as one: the name and its arguments. */
export interface RedisClient {
  sendCommand(args: string[]): Promise<unknown>
}

/** A client of a Redis Cluster as node-redis has it: it chooses the node by a key. */
export interface RedisCluster {
  readonly masters: readonly unknown[]
  sendCommand(firstKey: string | undefined, isReadonly: boolean, args: string[]): Promise<unknown>
}

/**
 * A URL `redis://user:password@host:6379/0`, `rediss://` for TLS, several hosts separated by commas for a cluster; or a
 * connected client, which stays the caller's to close.
 */
export type RedisSource = string | RedisClient | RedisCluster

/** Sends one command to the node of a key, or to any node of a cluster without a key. */
export type Send = (key: string | undefined, args: readonly string[]) => Promise<unknown>

/** @throws TypeError */
export function assertRedisSource(source: unknown): asserts source is RedisSource {
  if (typeof source === 'string') return
  if (isObject(source) && typeof source.sendCommand === 'function') return
  throw new TypeError('express-did-auth: a Redis store needs a URL, or a client with sendCommand as node-redis has it')
}

/** What a URL says. */
export interface RedisAddress {
  isTls: boolean
  username: string | undefined
  password: string | undefined
  /** More than one of a cluster. */
  hosts: { host: string; port: number }[]
  database: number
}

const DEFAULT_PORT = 6379
const REDIS_URL = /^(rediss?):\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^@/?#\s]+)(?:\/(\d{0,4}))?$/

/**
 * Reads a URL.
 *
 * @throws TypeError that never repeats the URL, which holds a password
 */
export function parseRedisUrl(url: string): RedisAddress {
  const [, scheme, username, password, hosts = '', database] = REDIS_URL.exec(url) ?? []
  try {
    const address = {
      isTls: scheme === 'rediss',
      username: decodePart(username),
      password: decodePart(password),
      hosts: hosts.split(',').map(parseHost),
      database: Number(database ?? '0')
    }
    if (scheme !== undefined && (address.hosts.length === 1 || address.database === 0)) return address
  } catch {
    // The reason would repeat the URL.
  }
  throw new TypeError(
    'express-did-auth: a Redis store needs a URL redis://user:password@host:6379/0, rediss:// for TLS, ' +
      'or redis://host1:6379,host2:6379 for a cluster; encode special characters of the password by encodeURIComponent'
  )
}

function decodePart(text: string | undefined): string | undefined {
  return text === undefined || text === '' ? undefined : decodeURIComponent(text)
}

function parseHost(text: string): { host: string; port: number } {
  const { hostname, port } = new URL(`redis://${text}`)
  if (hostname === '') throw new TypeError('no host')
  return { host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port === '' ? DEFAULT_PORT : port) }
}
