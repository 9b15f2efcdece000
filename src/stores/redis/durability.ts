import { DidAuthError } from '../../errors.js'
import type { Send } from './redis-source.js'

const SETTINGS = ['maxmemory-policy', 'appendonly', 'appendfsync', 'min-replicas-to-write'] as const
type Setting = (typeof SETTINGS)[number]

/**
 * Looks at how a Redis is set up that is to hold sessions.
 *
 * @param waitReplicas - how many replicas each write waits for
 * @returns a warning, where acknowledged writes can be lost, or it cannot be checked
 * @throws Error when Redis may evict sessions
 */
export async function findDurabilityWarning(send: Send, waitReplicas: number): Promise<string | undefined> {
  const settings = await readSettings(send)
  if (settings === undefined) {
    return 'Redis refuses CONFIG GET, so its durability is unknown: sessions need maxmemory-policy noeviction'
  }
  const policy = settings['maxmemory-policy']
  if (policy !== 'noeviction') {
    throw new Error(`sessions need a Redis with maxmemory-policy noeviction: ${policy} may evict them`)
  }
  const isSynced = settings.appendonly === 'yes' && settings.appendfsync === 'always'
  const isReplicated = waitReplicas >= 1 && Number(settings['min-replicas-to-write']) >= 1
  return isSynced || isReplicated
    ? undefined
    : 'Redis may lose logouts, refreshes and used challenges that were acknowledged, so that they are undone: ' +
        'set appendonly yes and appendfsync always, or waitReplicas and min-replicas-to-write'
}

/**
 * Asserts that a Redis which is connected to alone is no node of a cluster: it would refuse the keys of the others, now and
 * then.
 *
 * @throws DidAuthError ERR_CONFIG
 */
export async function assertNoCluster(send: Send): Promise<void> {
  // One whose user may not ask for it is tried as it is.
  const info = await send(undefined, ['INFO', 'cluster']).catch((error: unknown) => {
    if (error instanceof Error && isRefusal(error)) return ''
    throw error
  })
  if (!String(info).includes('cluster_enabled:1')) return
  throw new DidAuthError('ERR_CONFIG', {
    message:
      'express-did-auth: this Redis is a node of a cluster: give several of its hosts, redis://host1:6379,host2:6379'
  })
}

/** The settings; undefined where the user of the connection may not read them, as with many hosted services. */
async function readSettings(send: Send): Promise<Record<Setting, string> | undefined> {
  try {
    const values = await Promise.all(SETTINGS.map(async (name) => [name, await readSetting(send, name)] as const))
    return Object.fromEntries(values) as Record<Setting, string>
  } catch (error) {
    if (error instanceof Error && isRefusal(error)) return undefined
    throw error
  }
}

function isRefusal({ message }: Error): boolean {
  return /^(?:NOPERM|ERR) /.test(message)
}

async function readSetting(send: Send, name: Setting): Promise<string> {
  const answer = await send(undefined, ['CONFIG', 'GET', name])
  // Name and value in turn, or an object: RESP 2 and 3.
  const values: unknown[] = Array.isArray(answer) ? answer : Object.values(answer as object)
  return String(values.at(-1))
}
