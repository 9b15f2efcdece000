import type { Dialect } from './dialect.js'

/**
 * Creates the statements for the tables of sessions and challenge uses.
 *
 * A refresh updates an index at most once a day, because only two indexed columns change. Both are days since the Unix
 * epoch. `sweep_day` is the first day that begins after the session's expiry. `refreshed_day` is the day of the last
 * refresh, or NULL if there was none. NULL sorts first, so this index also finds the sessions to evict first. `number`
 * is the order of creation. Claims are text, because jsonb refuses `\u0000`. Pages of sessions are half empty, so that
 * the next version of a row stays on its page.
 *
 * In `did_auth_numbers`, `usesForgottenUntil` is the end of the newest closed window, and `pings` is written by pings.
 */
export const createTables = ({ words }: Pick<Dialect, 'words'>): readonly string[] => [
  `CREATE TABLE did_auth_sessions (
    session_key ${words.bytesKey},
    session_id ${words.exactText} NOT NULL,
    user_key ${words.bytes} NOT NULL,
    did text NOT NULL,
    state ${words.smallint} NOT NULL DEFAULT 0,
    token_claims text,
    token_hash ${words.bytes} NOT NULL,
    replaced ${words.bytes} NOT NULL DEFAULT ${words.noBytes},
    created_at ${words.bigint} NOT NULL,
    rotated_at ${words.bigint} NOT NULL,
    expires_at ${words.bigint} NOT NULL,
    sweep_day int NOT NULL,
    refreshed_day int,
    number ${words.identity}
  )${words.end({ fillFactor: 50 })}`,
  `CREATE TABLE did_auth_challenge_uses (
    user_key ${words.bytes} NOT NULL,
    challenge_window ${words.bigint} NOT NULL,
    log_in int NOT NULL,
    sign_up int NOT NULL,
    last_use ${words.bytes} NOT NULL,
    expires_at ${words.bigint} NOT NULL,
    PRIMARY KEY (user_key, challenge_window)
  )${words.end()}`,
  `CREATE TABLE did_auth_numbers (
    name ${words.exactText} PRIMARY KEY,
    number ${words.bigint} NOT NULL,
    changed_at ${words.bigint} NOT NULL DEFAULT 0
  )${words.end()}`,
  'CREATE INDEX did_auth_sessions_by_user ON did_auth_sessions (user_key, number)',
  'CREATE INDEX did_auth_sessions_by_end ON did_auth_sessions (sweep_day)',
  `CREATE INDEX did_auth_sessions_by_refresh ON did_auth_sessions (refreshed_day${words.nullsFirst}, number)`,
  'CREATE INDEX did_auth_challenge_uses_by_end ON did_auth_challenge_uses (expires_at)',
  `INSERT INTO did_auth_numbers (name, number) VALUES ('usesForgottenUntil', 0), ('pings', 0)`
]

/**
 * Creates the statements of each later step. A published step never changes. Steps only add, so that older code can
 * still use the tables: the table of ended sessions, and descriptions of sessions as JSON.
 */
export const createLaterSteps = (dialect: Pick<Dialect, 'words'>): readonly (readonly string[])[] => [
  createEndedTable(dialect),
  ['ALTER TABLE did_auth_sessions ADD COLUMN description text']
]

/**
 * Creates the statements for the table of ended sessions. Its rows outlive the sessions, until `list_until`. Lists use
 * the primary key as their index.
 */
const createEndedTable = ({ words }: Pick<Dialect, 'words'>): readonly string[] => [
  `CREATE TABLE did_auth_ended_sessions (
    service_key ${words.bytes} NOT NULL,
    ended_at ${words.bigint} NOT NULL,
    session_id ${words.exactText} NOT NULL,
    list_until ${words.bigint} NOT NULL,
    PRIMARY KEY (service_key, ended_at, session_id)
  )${words.end()}`,
  'CREATE INDEX did_auth_ended_sessions_by_end ON did_auth_ended_sessions (list_until)'
]
