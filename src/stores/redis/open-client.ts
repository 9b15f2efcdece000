import { createRequire } from 'node:module'
import { isObject } from '../../protocol/json.js'
import { parseRedisUrl, type RedisClient, type RedisCluster } from './redis-source.js'

/** A client of our own, which connects and ends. */
export type OwnClient = (RedisClient | RedisCluster) & {
  connect(): Promise<unknown>
  destroy(): void
  on(event: 'error', listener: () => void): unknown
}

/** What the package `redis` exports, as far as it is used. */
interface RedisPackage {
  createClient(options: object): OwnClient
  createCluster(options: object): OwnClient
}

const CONNECT_MILLISECONDS = 2_000
const RECONNECT_MILLISECONDS = 200

/**
 * Reads a URL and loads the package `redis`.
 *
 * @returns makes a client that is not connected yet
 * @throws TypeError when the URL is none; Error with the command to run when the package is not installed
 */
export function prepareClient(url: string): () => OwnClient {
  const { isTls, hosts, database, ...credentials } = parseRedisUrl(url)
  const redis = loadRedis()
  const socket = { tls: isTls, connectTimeout: CONNECT_MILLISECONDS }
  const shared = { ...credentials, RESP: 2, disableOfflineQueue: true }
  const [first] = hosts
  if (hosts.length === 1) {
    // The connection to one node is opened again by the next call, see RedisConnection.
    return () => redis.createClient({ ...shared, database, socket: { ...socket, ...first, reconnectStrategy: false } })
  }
  // A cluster's client opens the connections to its nodes again by itself.
  const rootNodes = hosts.map((host) => ({ socket: host }))
  const defaults = { ...shared, socket: { ...socket, reconnectStrategy: RECONNECT_MILLISECONDS } }
  return () => redis.createCluster({ rootNodes, defaults })
}

function loadRedis(): RedisPackage {
  try {
    // By its structure, so that no declaration of ours names types of the package.
    return createRequire(import.meta.url)('redis') as RedisPackage
  } catch (cause) {
    const isMissing = isObject(cause) && cause.code === 'MODULE_NOT_FOUND'
    const command = isMissing ? 'needs the package redis: npm install redis@6' : 'cannot load the package redis'
    throw new Error(`express-did-auth/stores/redis ${command}`, { cause })
  }
}
