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
  /** Everything that a request waits for: stores, resolvers, signers, business logic and lists of other services. */
  request: 10_000,
  /** A verb of any store. */
  storeVerb: 5_000,
  databaseVerb: DATABASE_VERB,
  ...computeDatabaseLimits(DATABASE_VERB),
  /** A verb of Redis with all of its commands, and the connection and the replicas that it waits for. */
  redisVerb: 3_500,
  redisConnect: 2_000,
  /** Pause between two attempts to connect; that of a cluster's client is longer. */
  redisRetry: 100,
  redisClusterRetry: 200,
  redisReplicas: 1_000,
  /** The wait of a verb of SQLite for another process that writes, and of one statement, which blocks the thread. */
  sqliteBusy: 4_000,
  sqliteStatement: 20,
  /** Proof of a contract wallet: its turn, and all its calls to the node of the chain. */
  contractProof: 5_000,
  /** A call of a resolver. */
  resolution: 3_000,
  /** A fetch of a status list or a list of ended sessions, and the wait of a request for the latter. */
  listFetch: 3_000,
  /** A fetch of a trusted issuer's keys, and the wait of a request, after which the fetch counts as stuck. */
  keyFetch: 5_000,
  keyWait: 10_000,
  /** Pause between two fetches of keys: anyone can send a token that names an unknown key. */
  keyPause: 30_000,
  /** Lifetime of cached keys. */
  keyLifetime: 600_000,
  /** Time by which a list of ended sessions begins earlier: a write may be committed later than its time says. */
  endedOverlap: 20_000,
  /** Difference between the clocks of two instances that loses no ended session and is no fault. */
  clockDifference: 10_000
}

/** Time limit for each part of a request that may take all of its time, in seconds. */
export const REQUEST_SECONDS = limitMilliseconds.request / 1000

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
  // Otherwise a verb could not wait for the next attempt.
  ['redisRetry', 'redisClusterRetry', 'redisConnect', 'redisVerb'],
  ['sqliteStatement', 'sqliteBusy', 'storeVerb'],
  ['contractProof', 'request'],
  ['resolution', 'request'],
  ['listFetch', 'request'],
  // The lists of ended sessions would miss a session whose logout was committed at the end of its request.
  ['clockDifference', 'endedOverlap'],
  ['request', 'endedOverlap'],
  ['keyFetch', 'keyWait', 'keyPause', 'keyLifetime']
]
