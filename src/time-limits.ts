/** Time limit for a verb of PostgreSQL in milliseconds, if the caller sets none. */
const DATABASE_VERB = 4_000

/** Computes the time limits within a verb of PostgreSQL. @param verb - time limit of the verb, in milliseconds */
export function computeDatabaseLimits(
  verb: number
): Record<
  'databaseWait' | 'databaseConnect' | 'databaseLock' | 'databaseStatement' | 'databaseIdleTransaction',
  number
> {
  return {
    // The wait for a free connection, and the time for opening one.
    databaseWait: verb / 4,
    databaseConnect: verb / 2,
    // PostgreSQL itself ends a statement that waits for a lock or takes too long, and a transaction that was abandoned.
    databaseLock: verb / 2,
    databaseStatement: verb * 0.75,
    databaseIdleTransaction: verb * 2.5
  }
}

/** Time limits whose order matters, in milliseconds. {@link limitOrder} is their order. */
export const limitMilliseconds = {
  /** Everything that a request waits for, business logic included. */
  request: 10_000,
  /** A verb of any store. */
  storeVerb: 5_000,
  databaseVerb: DATABASE_VERB,
  ...computeDatabaseLimits(DATABASE_VERB),
  /** A verb of Redis with all of its commands, and the connection and the replicas that it waits for. */
  redisVerb: 3_500,
  redisConnect: 2_000,
  redisReplicas: 1_000,
  /** The wait of a verb of SQLite for another process that writes. */
  sqliteBusy: 4_000
}

/**
 * Chains of time limits. Each is shorter than the next, which contains it: so the inner limit fails first, and its
 * error names the cause. A test asserts it.
 */
export const limitOrder: readonly (readonly (keyof typeof limitMilliseconds)[])[] = [
  ['databaseLock', 'databaseStatement', 'databaseVerb', 'storeVerb', 'request'],
  ['databaseWait', 'databaseVerb'],
  ['databaseConnect', 'databaseVerb'],
  ['databaseVerb', 'databaseIdleTransaction'],
  ['redisReplicas', 'redisVerb', 'storeVerb'],
  ['redisConnect', 'redisVerb'],
  ['sqliteBusy', 'storeVerb']
]
