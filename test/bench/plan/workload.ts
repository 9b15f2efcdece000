/**
 * What users do, and how a system is sized: every assumption of the plan, each with its default, its unit and where it
 * comes from. Each is an option of the command line: `--daily-share 0.5`.
 */
export const assumptions = {
  users: [1e6, 'users', 'asked for', 'registered users'],
  'daily-share': [0.3, 'of users', 'judgement', 'users who come on a day'],
  'login-share': [0.03, 'of users', 'judgement', 'users who log in on a day'],
  refreshes: [6, 'a day', 'judgement', 'refreshes of a user who comes'],
  guarded: [50, 'a day', 'judgement', 'guarded requests of a user who comes'],
  'vault-reads': [20, 'a day', 'judgement', 'vault reads of a user who comes'],
  'vault-writes': [2, 'a day', 'judgement', 'vault writes of a user who comes'],
  'peak-factor': [3, '× mean', 'judgement', 'the rate that everything is sized for'],
  'sessions-per-user': [0.65, 'rows', 'judgement', 'sessions that are kept'],
  'entries-per-user': [20, 'rows', 'judgement', 'vault entries'],
  'entry-bytes': [4_000, 'B', 'judgement', 'content of a vault entry'],
  'entry-index-bytes': [250, 'B', 'measured before', 'index of a vault entry, on disk'],
  'vault-read-node': [420, 'µs', 'judgement', 'CPU of the vault server for a read'],
  'vault-write-node': [1_000, 'µs', 'judgement', 'CPU of the vault server for a write'],
  'vault-read-pg': [150, 'µs', 'judgement', 'CPU of PostgreSQL for a read'],
  'vault-write-pg': [1_000, 'µs', 'judgement', 'CPU of PostgreSQL for a write'],
  'cold-wal': [4_300, 'B', 'measured before', 'WAL of the first write to a page after a checkpoint'],
  'node-reserve': [0.5, '× busy', 'judgement', 'cores of instances above those busy at peak'],
  'min-instances': [2, 'processes', 'availability', 'instances at least'],
  'primary-cores': [16, 'cores', 'judgement', 'cores of the largest primary'],
  'primary-load': [0.5, 'of cores', 'judgement', 'load that a primary may have at peak'],
  'primary-wal': [30, 'MB/s', 'judgement', 'WAL that a primary and its standbys keep up with'],
  'primary-rows': [128, 'GB', 'judgement', 'sessions or index that a primary keeps warm in memory'],
  'content-in-pg': [500, 'GB', 'judgement', 'vault content above this lies in object storage'],
  'quota-cores-in-pg': [1, 'cores', 'judgement', 'quotas above this load move from PostgreSQL to Redis'],
  'redis-rate': [60_000, 'a second', 'judgement', 'quota charges that a Redis primary may have at peak'],
  'redis-charge': [8, 'µs', 'judgement', 'CPU of Redis for a quota charge'],
  'pool-size': [10, 'connections', 'default', 'connections of an instance to the database'],
  'trip-ms': [0.5, 'ms', 'judgement', 'round trip to the database; the simulation uses it'],
  'failover-seconds': [0, 's', 'off', 'the simulation lets the primary answer nothing for so long'],
  retries: [0, 'times', 'off', 'how often a refused client of the simulation comes again, after about 5 s']
} as const satisfies Record<string, readonly [number, unit: string, source: string, meaning: string]>

export type Assumption = keyof typeof assumptions
export type Workload = Readonly<Record<Assumption, number>>

/** The assumptions, some of them given. @throws RangeError for one that is no number of 0 or more */
export function workloadOf(given: Partial<Record<Assumption, number | string>> = {}): Workload {
  const entries = Object.entries(assumptions).map(([name, [standard]]) => {
    const value = Number(given[name as Assumption] ?? standard)
    if (!(value >= 0 && value < Infinity)) throw new RangeError(`--${name} is a number, 0 or more`)
    return [name, value]
  })
  return Object.fromEntries(entries) as Workload
}

/** Kinds of request, as costs are measured for them. */
export const requestNames = ['challenge', 'login', 'refresh', 'guarded'] as const
export type RequestName = (typeof requestNames)[number]

export type Rates = Readonly<Record<RequestName | 'vaultRead' | 'vaultWrite', number>>

const SECONDS_A_DAY = 86_400

/** Requests a second at peak. */
export function peakRates(workload: Workload): Rates {
  const aSecond = (users: number, each: number): number => (users * each * workload['peak-factor']) / SECONDS_A_DAY
  const daily = workload.users * workload['daily-share']
  const logins = aSecond(workload.users, workload['login-share'])
  return {
    challenge: logins,
    login: logins,
    refresh: aSecond(daily, workload.refreshes),
    guarded: aSecond(daily, workload.guarded),
    vaultRead: aSecond(daily, workload['vault-reads']),
    vaultWrite: aSecond(daily, workload['vault-writes'])
  }
}

/**
 * The share of guarded requests whose token the instance has not verified yet, where a balancer deals requests out in turn:
 * before a request there was, on this instance, neither another of the token nor the login or refresh that issued it.
 */
export function firstSeenShare(rates: Pick<Rates, 'guarded' | 'refresh' | 'login'>, instances: number): number {
  const tokens = rates.refresh + rates.login
  if (tokens <= 0) return 0
  return (instances - 1) / (instances + rates.guarded / tokens)
}
