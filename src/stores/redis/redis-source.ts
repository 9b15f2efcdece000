import { DidAuthError } from '../../errors.js'
import { isObject } from '../../protocol/json.js'
import { limitMilliseconds } from '../../time-limits.js'
import { loadPackage } from '../load-package.js'

/** A node-redis client, or any object with the same `sendCommand`, which takes a command and its arguments. */
export interface RedisClient {
  /** Sends a command with its arguments, and returns its reply. */
  sendCommand(args: string[]): Promise<unknown>
}

/** A node-redis client of a Redis Cluster, which selects the node by a key. */
export interface RedisCluster {
  /** Nodes that accept writes. The list distinguishes a cluster from a client. */
  readonly masters: readonly unknown[]
  /** Sends a command to the node of `firstKey`, or to any node if it is undefined. */
  sendCommand(firstKey: string | undefined, isReadonly: boolean, args: string[]): Promise<unknown>
}

/**
 * A URL or a connected client, which its caller closes. The URL is `redis://user:password@host:6379/0`, with
 * `rediss://` for TLS, and with several hosts, separated by commas, for a cluster.
 */
export type RedisSource = string | RedisClient | RedisCluster

/** Sends one command to the node of a key, or to any node if there is no key. */
export type Send = (key: string | undefined, args: readonly string[]) => Promise<unknown>

/** A client that the store creates, connects and closes. */
export type OwnClient = (RedisClient | RedisCluster) & {
  connect(): Promise<unknown>
  destroy(): void
  on(event: 'error', listener: () => void): unknown
}

type RedisPackage = Record<'createClient' | 'createCluster', (options: object) => OwnClient>

const DEFAULT_PORT = 6379
const REDIS_URL = /^(rediss?):\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^@/?#\s]+)(?:\/(\d{0,4}))?$/

/** @throws TypeError */
export function assertRedisSource(source: unknown): asserts source is RedisSource {
  if (typeof source === 'string') return
  if (isObject(source) && typeof source.sendCommand === 'function') return
  throw new TypeError(
    'express-did-auth: a Redis store needs a URL, or a client with sendCommand such as that of node-redis'
  )
}

/** Whether a valid source is a cluster, in which the keys of a script must be in one slot. */
export function isCluster(source: RedisSource): boolean {
  return typeof source === 'string' ? parseRedisUrl(source).hosts.length > 1 : 'masters' in source
}

export function createSender(client: RedisClient | RedisCluster): Send {
  if ('masters' in client) return (key, args) => client.sendCommand(key, false, [...args])
  return (_key, args) => client.sendCommand([...args])
}

/**
 * @param ca - CA certificates that verify the server, as PEM text
 * @returns a function that creates clients, which are not connected yet
 * @throws TypeError for an invalid URL; Error if the package `redis` is not installed
 */
export function createClientFactory(url: string, ca?: string): () => OwnClient {
  const { isTls, hosts, database, ...credentials } = parseRedisUrl(url)
  if (ca !== undefined && !isTls) throw new TypeError('express-did-auth: `ca` needs a Redis URL with TLS, rediss://')
  const redis = loadPackage('redis', 'redis', '@6') as RedisPackage
  const socket = { tls: isTls, connectTimeout: limitMilliseconds.redisConnect, ...(ca !== undefined && { ca }) }
  const shared = { ...credentials, RESP: 2, disableOfflineQueue: true }
  const [firstHost] = hosts
  if (hosts.length === 1) {
    // RedisConnection reconnects with the next verb.
    return () =>
      redis.createClient({ ...shared, database, socket: { ...socket, ...firstHost, reconnectStrategy: false } })
  }
  // A cluster's client reconnects to its nodes on its own.
  const rootNodes = hosts.map((host) => ({ socket: host }))
  const defaults = { ...shared, socket: { ...socket, reconnectStrategy: limitMilliseconds.redisClusterRetry } }
  return () => redis.createCluster({ rootNodes, defaults })
}

export interface RedisAddress {
  isTls: boolean
  username: string | undefined
  password: string | undefined
  /** Hosts; more than one for a cluster. */
  hosts: { host: string; port: number }[]
  database: number
}

/** @throws TypeError, which never contains the URL, because the URL may contain a password */
export function parseRedisUrl(url: string): RedisAddress {
  assertNoParameters(url)
  const [, scheme, username, password, hosts = '', database = '0'] = REDIS_URL.exec(url) ?? []
  try {
    const address = {
      isTls: scheme === 'rediss',
      username: decodePart(username),
      password: decodePart(password),
      hosts: hosts.split(',').map(parseHost),
      database: Number(database)
    }
    if (scheme !== undefined && (address.hosts.length === 1 || address.database === 0)) return address
  } catch {
    // The error's text could contain the URL.
  }
  throw new TypeError(
    'express-did-auth: a Redis store needs a URL redis://user:password@host:6379/0, rediss:// for TLS, ' +
      'or redis://host1:6379,host2:6379 for a cluster; encode the password with encodeURIComponent'
  )
}

/** @throws TypeError that names the first parameter of a query. Before the last `@`, a `?` belongs to the password */
function assertNoParameters(url: string): void {
  const [, name] = /\?([\w-]{1,32})=[^@]*$/.exec(url) ?? []
  if (name === undefined) return
  throw new TypeError(`express-did-auth: a Redis URL has no parameters: remove ${name}. For TLS, give rediss://`)
}

function decodePart(text = ''): string | undefined {
  return text === '' ? undefined : decodeURIComponent(text)
}

function parseHost(text: string): { host: string; port: number } {
  const { hostname, port } = new URL(`redis://${text}`)
  if (hostname === '') throw new TypeError('no host')
  return { host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port === '' ? DEFAULT_PORT : port) }
}

const SETTINGS = ['maxmemory-policy', 'appendonly', 'appendfsync', 'min-replicas-to-write'] as const

/** @returns a warning if acknowledged writes can be lost @throws Error if Redis may evict sessions */
export async function findDurabilityWarning(send: Send, waitReplicas: number): Promise<string | undefined> {
  const answers = await ignoreForbidden(Promise.all(SETTINGS.map((name) => send(undefined, ['CONFIG', 'GET', name]))))
  if (answers === undefined) {
    return 'Redis refuses CONFIG GET, so its durability is unknown: sessions need maxmemory-policy noeviction'
  }
  // The answer is an array of name and value (RESP 2), or an object (RESP 3).
  const readValue = (answer: unknown): string => String(Object.values(answer as object).at(-1))
  const [policy, appendOnly, appendFsync, minReplicas] = answers.map(readValue)
  if (policy !== 'noeviction') {
    throw new Error(`sessions need a Redis with maxmemory-policy noeviction: ${String(policy)} may evict them`)
  }
  const isSynced = appendOnly === 'yes' && appendFsync === 'always'
  const isReplicated = waitReplicas >= 1 && Number(minReplicas) >= 1
  if (isSynced || isReplicated) return undefined
  return (
    'Redis may lose acknowledged logouts, refreshes and used challenges, which are then undone: ' +
    'set appendonly yes and appendfsync always, or waitReplicas and min-replicas-to-write'
  )
}

/** @throws DidAuthError ERR_CONFIG if Redis is a node of a cluster, which would refuse the keys of other nodes */
export async function assertNoCluster(send: Send): Promise<void> {
  const info = await ignoreForbidden(send(undefined, ['INFO', 'cluster']))
  if (!String(info).includes('cluster_enabled:1')) return
  const remedy = 'give several of its hosts, redis://host1:6379,host2:6379'
  throw new DidAuthError('ERR_CONFIG', { message: `express-did-auth: this Redis is a node of a cluster: ${remedy}` })
}

/** Returns undefined if the user may not send the command, as with many hosted services. */
function ignoreForbidden<T>(answer: Promise<T>): Promise<T | undefined> {
  return answer.catch((error: unknown) => {
    if (error instanceof Error && /^(?:NOPERM|ERR) /.test(error.message)) return undefined
    throw error
  })
}
