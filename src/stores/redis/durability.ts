import { DidAuthError } from '../../errors.js'
import type { Send } from './redis-source.js'

const SETTINGS = ['maxmemory-policy', 'appendonly', 'appendfsync', 'min-replicas-to-write'] as const

/** @returns a warning where acknowledged writes can be lost @throws Error when Redis may evict sessions */
export async function findDurabilityWarning(send: Send, waitReplicas: number): Promise<string | undefined> {
  const answers = await unlessRefused(Promise.all(SETTINGS.map((name) => send(undefined, ['CONFIG', 'GET', name]))))
  if (answers === undefined) {
    return 'Redis refuses CONFIG GET, so its durability is unknown: sessions need maxmemory-policy noeviction'
  }
  // Name and value in turn, or an object: RESP 2 and 3.
  const valueOf = (answer: unknown): string => String(Object.values(answer as object).at(-1))
  const [policy, appendOnly, appendFsync, minReplicas] = answers.map(valueOf)
  if (policy !== 'noeviction') {
    throw new Error(`sessions need a Redis with maxmemory-policy noeviction: ${String(policy)} may evict them`)
  }
  const isSynced = appendOnly === 'yes' && appendFsync === 'always'
  const isReplicated = waitReplicas >= 1 && Number(minReplicas) >= 1
  if (isSynced || isReplicated) return undefined
  return (
    'Redis may lose logouts, refreshes and used challenges that were acknowledged, so that they are undone: ' +
    'set appendonly yes and appendfsync always, or waitReplicas and min-replicas-to-write'
  )
}

/** @throws DidAuthError ERR_CONFIG where it is a node of a cluster, which would refuse the keys of other nodes */
export async function assertNoCluster(send: Send): Promise<void> {
  const info = await unlessRefused(send(undefined, ['INFO', 'cluster']))
  if (!String(info).includes('cluster_enabled:1')) return
  throw new DidAuthError('ERR_CONFIG', {
    message:
      'express-did-auth: this Redis is a node of a cluster: give several of its hosts, redis://host1:6379,host2:6379'
  })
}

/** Undefined where the user of the connection may not ask, as with many hosted services. */
function unlessRefused<T>(asked: Promise<T>): Promise<T | undefined> {
  return asked.catch((error: unknown) => {
    if (error instanceof Error && /^(?:NOPERM|ERR) /.test(error.message)) return undefined
    throw error
  })
}
