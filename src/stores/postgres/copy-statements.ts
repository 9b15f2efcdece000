import type { PostgresStatement } from './postgres-pool.js'

/** Columns of a session, in the order of the values. */
const COLUMNS = {
  session_id: 'text',
  service: 'smallint',
  user_key: 'bytea',
  did: 'text',
  state: 'smallint',
  token_claims: 'text',
  token_hash: 'bytea',
  replaced: 'bytea',
  created_at: 'bigint',
  rotated_at: 'bigint',
  expires_at: 'bigint',
  sweep_day: 'int',
  refreshed_day: 'int'
}

const names = Object.keys(COLUMNS).join(', ')
const KEPT = ['session_id', 'service', 'user_key', 'did', 'created_at']
const changed = Object.keys(COLUMNS).filter((name) => !KEPT.includes(name))

/**
 * Adds sessions, given as arrays of their columns, in their order. What is there goes on only where it is an ancestor of
 * what comes, so that no session is ever set back; an end counts wherever it was.
 */
export const ADD_SESSIONS: PostgresStatement = {
  name: 'did_auth_copy_sessions',
  text: `INSERT INTO did_auth_sessions AS known (${names})
    SELECT ${names} FROM ${rowsOf(COLUMNS)} ORDER BY place
    ON CONFLICT (session_id, service) DO UPDATE SET ${changed.map((name) => `${name} = excluded.${name}`).join(', ')}
    WHERE known.state = 0
      AND (position(substring(known.token_hash FOR 18) IN excluded.replaced) > 0 OR excluded.state <> 0)`
}

const USE_COLUMNS = {
  user_key: 'bytea',
  challenge_window: 'bigint',
  service: 'smallint',
  log_in: 'int',
  sign_up: 'int',
  last_use: 'bytea',
  expires_at: 'bigint'
}
const useNames = Object.keys(USE_COLUMNS).join(', ')

/** Adds uses of challenges, given likewise. */
export const ADD_USES: PostgresStatement = {
  name: 'did_auth_copy_uses',
  text: `INSERT INTO did_auth_challenge_uses AS known (${useNames}) SELECT ${useNames} FROM ${rowsOf(USE_COLUMNS)}
    ON CONFLICT (user_key, challenge_window, service) DO UPDATE SET last_use = excluded.last_use,
      log_in = greatest(known.log_in, excluded.log_in), sign_up = greatest(known.sign_up, excluded.sign_up)
    WHERE excluded.log_in > known.log_in OR excluded.sign_up > known.sign_up`
}

/** Raises the end of the newest window whose uses are forgotten. */
export const FORGET_USES: PostgresStatement = {
  name: 'did_auth_copy_forgotten',
  text: `UPDATE did_auth_numbers SET number = $1, changed_at = pg_catalog.now()
    WHERE name = 'usesForgottenUntil' AND number < $1`
}

/** What a statement reads rows from: arrays, and `place` in them. */
function rowsOf(columns: Readonly<Record<string, string>>): string {
  const types = Object.values(columns).map((type, index) => `$${String(index + 1)}::${type}[]`)
  return `unnest(${types.join(', ')}) WITH ORDINALITY AS new (${Object.keys(columns).join(', ')}, place)`
}
