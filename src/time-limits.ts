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
  /** A verb of Redis: its commands, and its waits for a connection and for replicas. */
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
  /** A fetch of a status list or of a list of ended sessions. A request waits as long for the second. */
  listFetch: 3_000,
  /** A fetch of a trusted issuer's keys, and the wait of a request for it, after which the fetch counts as failed. */
  keyFetch: 5_000,
  keyWait: 10_000,
  /** Pause between two fetches of keys: anyone can send a token that names an unknown key. */
  keyPause: 30_000,
  /** Lifetime of cached keys. */
  keyLifetime: 600_000,
  /** Overlap of two lists of ended sessions, because a write can be committed after the time that it records. */
  endedOverlap: 20_000,
  /** Largest accepted difference between the clocks of two instances. Within it, no ended session is missed. */
  clockDifference: 10_000
}

/** Time limit for each part of a request that may take all of its time, in seconds. */
export const REQUEST_SECONDS = limitMilliseconds.request / 1000

/**
 * Chains of time limits, as a test asserts. Each limit is shorter than the next one, which contains it. So the inner
 * limit ends first, and its error names the cause.
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
