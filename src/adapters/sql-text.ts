/** What SQLite and PostgreSQL spell differently; all the rest of the text is good for both. */
export interface SqlDialect {
  /** Type of a 64-bit integer. */
  integer: string
  /** Type of a primary key that numbers rows in the order of their insertion. */
  identity: string
  /** What follows a table's closing bracket. */
  tableOptions: string
  /** What follows a SELECT whose row is going to be changed. */
  forUpdate: string
}

/** `STRICT`, because SQLite would else keep a text where a number belongs. Its one writer at a time needs no row locks. */
export const sqliteDialect: SqlDialect = {
  integer: 'INTEGER',
  identity: 'INTEGER PRIMARY KEY',
  tableOptions: 'STRICT',
  forUpdate: ''
}

/** The tables of version 1, in the order of creation. All names begin with `did_auth_`: others may live beside them. */
export function sqlSchema({ integer, identity, tableOptions }: SqlDialect): string[] {
  return [
    `CREATE TABLE did_auth_sessions (
      id ${identity},
      service TEXT NOT NULL,
      session_id TEXT NOT NULL,
      canonical_did TEXT NOT NULL,
      did TEXT NOT NULL,
      state TEXT NOT NULL CHECK (state IN ('active', 'loggedOut', 'revoked')),
      token_claims TEXT,
      refresh_token_hash TEXT NOT NULL,
      rotations ${integer} NOT NULL,
      created_at ${integer} NOT NULL,
      rotated_at ${integer} NOT NULL,
      expires_at ${integer} NOT NULL,
      UNIQUE (session_id, service),
      UNIQUE (refresh_token_hash, service)
    ) ${tableOptions}`,
    'CREATE INDEX did_auth_sessions_by_user ON did_auth_sessions (canonical_did, service, id)',
    'CREATE INDEX did_auth_sessions_by_end ON did_auth_sessions (expires_at)',
    `CREATE TABLE did_auth_replaced_tokens (
      refresh_token_hash TEXT NOT NULL,
      service TEXT NOT NULL,
      session ${integer} NOT NULL,
      rotation ${integer} NOT NULL,
      replaced_at ${integer} NOT NULL,
      PRIMARY KEY (refresh_token_hash, service)
    ) ${tableOptions}`,
    'CREATE INDEX did_auth_replaced_tokens_by_session ON did_auth_replaced_tokens (session, rotation)',
    `CREATE TABLE did_auth_challenge_uses (
      id ${identity},
      service TEXT NOT NULL,
      canonical_did TEXT NOT NULL,
      challenge_window ${integer} NOT NULL,
      log_in ${integer} NOT NULL,
      sign_up ${integer} NOT NULL,
      expires_at ${integer} NOT NULL,
      UNIQUE (canonical_did, challenge_window, service)
    ) ${tableOptions}`,
    'CREATE INDEX did_auth_challenge_uses_by_end ON did_auth_challenge_uses (expires_at)',
    `CREATE TABLE did_auth_quotas (
      id ${identity},
      kind TEXT NOT NULL,
      service TEXT NOT NULL,
      quota_key TEXT NOT NULL,
      request_count ${integer} NOT NULL,
      resets_at ${integer} NOT NULL,
      UNIQUE (quota_key, service, kind)
    ) ${tableOptions}`,
    'CREATE INDEX did_auth_quotas_by_end ON did_auth_quotas (kind, resets_at)',
    // How many rows there are: COUNT(*) would read them all.
    `INSERT INTO did_auth_numbers (name, number)
      VALUES ('sessions', 0), ('challengeUses', 0), ('requestQuotas', 0), ('namingQuotas', 0), ('version', 1)`
  ]
}

/** The table that says which version the others have: 1, or no row when they are still to be created. */
export function sqlVersionTable({ integer, tableOptions }: SqlDialect): string {
  return `CREATE TABLE IF NOT EXISTS did_auth_numbers (
    name TEXT NOT NULL PRIMARY KEY,
    number ${integer} NOT NULL
  ) ${tableOptions}`
}

/** The rows that are counted in `did_auth_numbers`. */
export type CountedRows = 'sessions' | 'challengeUses' | 'requestQuotas' | 'namingQuotas'

const SESSION = 's.id, s.session_id, s.did, s.state, s.token_claims, s.created_at, s.rotated_at, s.expires_at'

/** The queries. Every list of rows that is only to be tidied up has a LIMIT, so that no request pays for all others. */
export const sqlText = {
  version: "SELECT number FROM did_auth_numbers WHERE name = 'version'",
  addRows: 'UPDATE did_auth_numbers SET number = number + $1 WHERE name = $2 RETURNING number',

  insertSession: `INSERT INTO did_auth_sessions
    (service, session_id, canonical_did, did, state, token_claims, refresh_token_hash, rotations, created_at,
      rotated_at, expires_at)
    VALUES ($1, $2, $3, $4, 'active', $5, $6, 0, $7, $7, $8)`,
  // Those that a user's next session leaves no room for: first what is over anyway, then the oldest.
  sessionsBeyond: `SELECT id FROM did_auth_sessions WHERE canonical_did = $1 AND service = $2
    ORDER BY CASE WHEN expires_at <= $3 THEN 2 WHEN state = 'active' THEN 0 ELSE 1 END, id DESC
    LIMIT 2 OFFSET $4`,
  expiredSessions: 'SELECT id FROM did_auth_sessions WHERE expires_at <= $1 ORDER BY expires_at LIMIT 2',
  firstSessionToEnd: 'SELECT id FROM did_auth_sessions ORDER BY expires_at, id LIMIT 1',
  deleteSession: 'DELETE FROM did_auth_sessions WHERE id = $1 RETURNING id',
  deleteReplacedTokens: 'DELETE FROM did_auth_replaced_tokens WHERE session = $1',

  sessionOfToken: `SELECT ${SESSION}, s.rotations, NULL AS replaced_at FROM did_auth_sessions s
    WHERE s.refresh_token_hash = $1 AND s.service = $2`,
  sessionOfReplacedToken: `SELECT ${SESSION}, s.rotations, r.replaced_at
    FROM did_auth_replaced_tokens r JOIN did_auth_sessions s ON s.id = r.session
    WHERE r.refresh_token_hash = $1 AND r.service = $2`,
  rotateToken: `UPDATE did_auth_sessions
    SET refresh_token_hash = $2, rotations = rotations + 1, rotated_at = $3, expires_at = $4 WHERE id = $1`,
  insertReplacedToken: `INSERT INTO did_auth_replaced_tokens
    (refresh_token_hash, service, session, rotation, replaced_at) VALUES ($1, $2, $3, $4, $5)`,
  forgetReplacedTokens: 'DELETE FROM did_auth_replaced_tokens WHERE session = $1 AND rotation <= $2',
  revokeSession: "UPDATE did_auth_sessions SET state = 'revoked' WHERE id = $1",
  endSession: `UPDATE did_auth_sessions SET state = $3
    WHERE session_id = $1 AND service = $2 AND state = 'active' AND expires_at > $4 RETURNING id`,
  revokeSessions: `UPDATE did_auth_sessions SET state = 'revoked'
    WHERE canonical_did = $1 AND service = $2 AND state = 'active' AND expires_at > $3 RETURNING id`,
  listSessions: `SELECT ${SESSION} FROM did_auth_sessions s
    WHERE s.canonical_did = $1 AND s.service = $2 AND s.state = 'active' AND s.expires_at > $3 ORDER BY s.id DESC`,

  challengeUses: `SELECT log_in, sign_up FROM did_auth_challenge_uses
    WHERE canonical_did = $1 AND challenge_window = $2 AND service = $3`,
  insertChallengeUses: `INSERT INTO did_auth_challenge_uses
    (canonical_did, challenge_window, service, log_in, sign_up, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (canonical_did, challenge_window, service) DO NOTHING RETURNING id`,
  updateChallengeUses: `UPDATE did_auth_challenge_uses SET log_in = $4, sign_up = $5
    WHERE canonical_did = $1 AND challenge_window = $2 AND service = $3`,
  deleteEndedChallengeUses: `DELETE FROM did_auth_challenge_uses WHERE id IN
    (SELECT id FROM did_auth_challenge_uses WHERE expires_at <= $1 ORDER BY expires_at LIMIT 3) RETURNING id`,

  quota: `SELECT request_count, resets_at FROM did_auth_quotas
    WHERE quota_key = $1 AND service = $2 AND kind = $3 AND resets_at > $4`,
  raiseQuota: `UPDATE did_auth_quotas SET request_count = request_count + 1
    WHERE quota_key = $1 AND service = $2 AND kind = $3 AND resets_at > $4 RETURNING request_count, resets_at`,
  beginQuota: `INSERT INTO did_auth_quotas (quota_key, service, kind, request_count, resets_at)
    VALUES ($1, $2, $3, 1, $4)
    ON CONFLICT (quota_key, service, kind) DO UPDATE SET request_count = did_auth_quotas.request_count + 1
    RETURNING request_count, resets_at`,
  deleteQuota: 'DELETE FROM did_auth_quotas WHERE quota_key = $1 AND service = $2 AND kind = $3 RETURNING id',
  deleteEndedQuotas: `DELETE FROM did_auth_quotas WHERE id IN
    (SELECT id FROM did_auth_quotas WHERE kind = $1 AND resets_at <= $2 ORDER BY resets_at LIMIT 3) RETURNING id`,
  deleteFirstQuotaToEnd: `DELETE FROM did_auth_quotas WHERE id IN
    (SELECT id FROM did_auth_quotas WHERE kind = $1 ORDER BY resets_at, id LIMIT 1) RETURNING id`
} as const
