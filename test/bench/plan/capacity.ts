import type { UnitCosts } from './unit-costs.js'
import { firstSeenShare, peakRates, requestNames, type Rates, type Workload } from './workload.js'

/** What a number of users needs at peak. GB are 10⁹ bytes. */
export interface Capacity {
  users: number
  rates: Rates
  firstSeenShare: number
  nodeCores: number
  /** Processes of one core each. */
  instances: number
  sessions: { cores: number; gigabytes: number; warmWal: number; coldWal: number }
  quotas: { perSecond: number; coresInPostgres: number; redisPrimaries: number }
  vault: {
    nodeCores: number
    instances: number
    cores: number
    wal: number
    indexGigabytes: number
    contentGigabytes: number
    contentIn: 'PostgreSQL' | 'object storage'
  }
  /** Primaries with their standbys; more than one are cells. */
  authPrimaries: number
  vaultPrimaries: number
  /** Connections to an auth primary. */
  connections: number
}

/** Model × unit costs. */
export function capacityOf(workload: Workload, costs: UnitCosts): Capacity {
  const rates = peakRates(workload)
  const { requests } = costs
  const sum = (field: 'nodeMicroseconds' | 'postgresMicroseconds' | 'walBytes'): number =>
    requestNames.reduce((total, name) => total + (rates[name] * requests[name][field]) / 1e6, 0)

  const quotaRate = rates.guarded + rates.challenge + rates.login
  // A guarded request asks the database for nothing but its quota.
  const quotaCores = (quotaRate * requests.guarded.postgresMicroseconds) / 1e6
  const isInRedis = quotaCores > workload['quota-cores-in-pg']
  const sessionCores = sum('postgresMicroseconds') - quotaCores
  const quotaWal = (quotaRate * requests.guarded.walBytes) / 1e6
  const warmWal = sum('walBytes') - (isInRedis ? quotaWal : 0)
  const coldWal = ((rates.refresh + rates.login) * workload['cold-wal']) / 1e6
  const sessionGigabytes = (workload.users * workload['sessions-per-user'] * costs.bytesPerSession) / 1e9
  const primaryCores = workload['primary-cores'] * workload['primary-load']
  const authPrimaries = Math.ceil(
    Math.max(
      (sessionCores + (isInRedis ? 0 : quotaCores)) / primaryCores,
      Math.max(warmWal, coldWal) / workload['primary-wal'],
      sessionGigabytes / workload['primary-rows']
    )
  )

  const { nodeCores, instances, share } = authNode(workload, rates, costs, sum('nodeMicroseconds'))
  const entries = workload.users * workload['entries-per-user']
  const contentGigabytes = (entries * workload['entry-bytes']) / 1e9
  const contentIn = contentGigabytes > workload['content-in-pg'] ? 'object storage' : 'PostgreSQL'
  const indexGigabytes = (entries * workload['entry-index-bytes']) / 1e9
  const vaultNode =
    (rates.vaultRead * workload['vault-read-node'] + rates.vaultWrite * workload['vault-write-node']) / 1e6
  const vaultCores = (rates.vaultRead * workload['vault-read-pg'] + rates.vaultWrite * workload['vault-write-pg']) / 1e6
  // The pages of owner, entry and content are cold; content beside them is written as it is.
  const inline = contentIn === 'PostgreSQL' ? workload['entry-bytes'] : 0
  const vaultWal = (rates.vaultWrite * (workload['cold-wal'] + inline)) / 1e6
  return {
    users: workload.users,
    rates,
    firstSeenShare: share,
    nodeCores,
    instances,
    sessions: { cores: sessionCores, gigabytes: sessionGigabytes, warmWal, coldWal },
    quotas: {
      perSecond: quotaRate,
      coresInPostgres: isInRedis ? 0 : quotaCores,
      // Each cell has its own.
      redisPrimaries: isInRedis ? authPrimaries * Math.ceil(quotaRate / authPrimaries / workload['redis-rate']) : 0
    },
    vault: {
      nodeCores: vaultNode,
      instances: instancesFor(vaultNode, workload),
      cores: vaultCores,
      wal: vaultWal,
      indexGigabytes,
      contentGigabytes,
      contentIn
    },
    authPrimaries,
    vaultPrimaries: Math.ceil(
      Math.max(vaultCores / primaryCores, vaultWal / workload['primary-wal'], indexGigabytes / workload['primary-rows'])
    ),
    connections: Math.ceil(instances / authPrimaries) * workload['pool-size']
  }
}

/** How many tokens are new to an instance depends on how many instances there are, and those on the tokens. */
function authNode(workload: Workload, rates: Rates, costs: UnitCosts, underLoad: number) {
  // An instance with its reserve is idle for this share of the time, and each piece of work that finds it so has to wake it.
  const idleShare = workload['node-reserve'] / (1 + workload['node-reserve'])
  const pieces = requestNames.reduce((sum, name) => sum + rates[name] * (costs.requests[name].trips + 1), 0)
  const base = underLoad + (pieces * idleShare * costs.wake.nodeMicroseconds) / 1e6
  const coresWith = (share: number): number => base + (rates.guarded * share * costs.firstSeenMicroseconds) / 1e6
  let instances = instancesFor(coresWith(0), workload)
  // Grows to at most what all tokens new would need.
  for (let last = 0; last !== instances;) {
    last = instances
    instances = Math.max(last, instancesFor(coresWith(firstSeenShare(rates, last)), workload))
  }
  const share = firstSeenShare(rates, instances)
  return { share, instances, nodeCores: coresWith(share) }
}

function instancesFor(cores: number, workload: Workload): number {
  return Math.max(workload['min-instances'], Math.ceil(cores * (1 + workload['node-reserve'])))
}
