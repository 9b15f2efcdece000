import { expect, it } from '@jest/globals'
import { createQuotaTable } from '../../src/stores/postgres/quota-table.js'
import { packReplacedToken } from '../../src/stores/replaced-tokens.js'
import { postgresDialect, sqliteDialect } from '../../src/stores/sql/dialect.js'
import type { SqlQuery, SqlRow, SqlVerb } from '../../src/stores/sql/query.js'
import * as sessionVerbs from '../../src/stores/sql/session-verbs.js'
import * as storeVerbs from '../../src/stores/sql/store-verbs.js'
import {
  createCharge,
  hashToken,
  createRotation,
  service,
  createSession,
  START_SECONDS,
  createUse
} from '../../src/testing/store-case.js'

/** Row of a session whose token 0 was replaced long before `createRotation` presents it again. */
const SESSION: SqlRow = {
  ...{ session_id: 'session-a', did: 'did', state: 0, token_claims: null, created_at: 1, rotated_at: 1 },
  expires_at: START_SECONDS + 3_600,
  token_hash: Buffer.from(hashToken('a', 1), 'base64url').toString('hex'),
  replaced: packReplacedToken(hashToken('a', 0), START_SECONDS - 100).toString('hex')
}
const UNTIL = START_SECONDS + 660
const untilDone = async (deleteSome: (limit: number) => Promise<unknown>): Promise<void> => {
  await deleteSome(1)
}

const createVerbs = (dialect: typeof sqliteDialect) => {
  const verbs = { ...sessionVerbs, ...storeVerbs }
  const run = <A extends readonly unknown[]>(verb: SqlVerb<typeof dialect, A>, query: SqlQuery, ...args: A) =>
    verb.run(Object.assign(query, { dialect }), ...args)
  return [
    (query: SqlQuery) => run(verbs.createSession, query, createSession('a'), true),
    (query: SqlQuery) => run(verbs.findSession, query, service, 'a'),
    (query: SqlQuery) => run(verbs.rotateRefreshToken, query, createRotation('a', 0, 2)),
    (query: SqlQuery) => run(verbs.endSession, query, service, 'a', 'revoked', START_SECONDS),
    (query: SqlQuery) => run(verbs.revokeSessions, query, service, 'did', START_SECONDS),
    (query: SqlQuery) => run(verbs.createSession, query, createSession('a', { listUntilSeconds: UNTIL }), true),
    (query: SqlQuery) => run(verbs.rotateRefreshToken, query, createRotation('a', 0, 2, { listUntilSeconds: UNTIL })),
    (query: SqlQuery) => run(verbs.endSession, query, service, 'a', 'revoked', START_SECONDS, UNTIL),
    (query: SqlQuery) => run(verbs.revokeSessions, query, service, 'did', START_SECONDS, UNTIL),
    (query: SqlQuery) => run(verbs.listEndedSessions, query, service, START_SECONDS, 1),
    (query: SqlQuery) => run(verbs.deleteEndedSessions, query, START_SECONDS, 1),
    (query: SqlQuery) => run(verbs.listSessions, query, service, 'did', START_SECONDS),
    (query: SqlQuery) => run(verbs.deleteExpiredSessions, query, START_SECONDS, 1),
    (query: SqlQuery) => run(verbs.countChallengeUses, query, createUse()),
    (query: SqlQuery) => run(verbs.consumeChallenge, query, createUse(), true),
    (query: SqlQuery) => run(verbs.closeWindows, query, START_SECONDS, 1),
    (query: SqlQuery) => run(verbs.deleteClosedUses, query, 1, 1),
    (query: SqlQuery) => run(verbs.findFullTables, query, { sessions: 1, challengeUses: 1 }),
    (query: SqlQuery) => run(verbs.ping, query)
  ]
}
const VERBS = [
  ...createVerbs(sqliteDialect),
  ...createVerbs(postgresDialect),
  (query: SqlQuery) => createQuotaTable(query, 1).chargeQuota(createCharge({ limit: 1 })),
  (query: SqlQuery) => createQuotaTable(query, 1).trim!(untilDone),
  (query: SqlQuery) => createQuotaTable(query, 1).deleteEnded!(untilDone, START_SECONDS)
]

/** Runs a verb in which the statement with this number fails. @returns the number of sent statements */
async function runFailingAt(verb: (query: SqlQuery) => Promise<unknown>, failing: number): Promise<number> {
  let sent = 0
  await verb((statement) => {
    sent += 1
    const isFailing = sent - 1 === failing
    const rows = [statement.name?.endsWith('surplus') === true ? { rows: 5 } : SESSION]
    // If a rotation or a charge changes no row, the verb queries the reason.
    const isFound = !/_rotate|_charge|find_use/.test(statement.name ?? '')
    const answer = isFailing
      ? new Promise<never>((_, reject) => setImmediate(() => reject(new Error('failed'))))
      : Promise.resolve({ rows: isFound ? rows : [], rowCount: isFound ? 1 : 0, isRepeat: false })
    // Only the verb must handle the error.
    answer.catch(() => undefined)
    return answer
  })
  return sent
}

it.each(VERBS.map((verb) => [String(verb).slice(11, 80), verb] as const))(
  'a verb waits for each of its statements: %s',
  async (_text, verb) => {
    const statements = await runFailingAt(verb, Infinity)
    expect(statements).toBeGreaterThan(0)
    for (let failing = 0; failing < statements; failing += 1)
      await expect(runFailingAt(verb, failing)).rejects.toThrow('failed')
  }
)

it('refuses a rotation whose statement matched no row, although the session is valid when it is read', async () => {
  const answers = [[], [SESSION]]
  const query = async () => ({ rows: answers.shift() ?? [], rowCount: 0, isRepeat: false })
  const rotation = createRotation('a', 1, 2)
  const verdict = sessionVerbs.rotateRefreshToken.run(Object.assign(query, { dialect: postgresDialect }), rotation)
  expect(await verdict).toBe('replaced')
})
