import type { PostgresMigration } from './migrate-postgres.js'

/** The table that holds the version of the others. */
export const SCHEMA_TABLE = 'did_auth_schema'

/**
 * The steps of the schema. A step that was published never changes: another is added.
 *
 * Refreshing a session touches no index (a HOT update): `sweep_day` and `refreshed_day` change once a day, and pages are half
 * empty for the next version of a row. `user_key`: 16 bytes of SHA-256 of the canonical DID. `sweep_day`, `refreshed_day` and
 * `replaced` are as in the SQLite store. Claims are text, because jsonb refuses `\u0000`.
 */
export const MIGRATIONS: readonly PostgresMigration[] = [
  {
    needsCode: 1,
    statements: [
      `CREATE TABLE did_auth_services (
        id smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        url text COLLATE "C" NOT NULL UNIQUE
      )`,
      `CREATE TABLE did_auth_sessions (
        session_id text COLLATE "C" NOT NULL,
        service smallint NOT NULL,
        user_key bytea NOT NULL,
        did text NOT NULL,
        state smallint NOT NULL DEFAULT 0,
        token_claims text,
        token_hash bytea NOT NULL,
        replaced bytea NOT NULL DEFAULT '',
        created_at bigint NOT NULL,
        rotated_at bigint NOT NULL,
        expires_at bigint NOT NULL,
        sweep_day int NOT NULL,
        refreshed_day int,
        number bigint GENERATED ALWAYS AS IDENTITY,
        PRIMARY KEY (session_id, service)
      ) WITH (fillfactor = 50)`,
      'ALTER TABLE did_auth_sessions ALTER COLUMN replaced SET STORAGE MAIN',
      'CREATE INDEX did_auth_sessions_by_user ON did_auth_sessions (user_key, service, number)',
      'CREATE INDEX did_auth_sessions_by_end ON did_auth_sessions (sweep_day)',
      'CREATE INDEX did_auth_sessions_by_refresh ON did_auth_sessions (refreshed_day NULLS FIRST, number)',
      `CREATE TABLE did_auth_challenge_uses (
        user_key bytea NOT NULL,
        challenge_window bigint NOT NULL,
        service smallint NOT NULL,
        log_in int NOT NULL,
        sign_up int NOT NULL,
        last_use bytea NOT NULL,
        expires_at bigint NOT NULL,
        PRIMARY KEY (user_key, challenge_window, service)
      )`,
      'CREATE INDEX did_auth_challenge_uses_by_end ON did_auth_challenge_uses (expires_at)',
      ...quotaTable('did_auth_request_quotas'),
      ...quotaTable('did_auth_anonymous_quotas'),
      `CREATE TABLE did_auth_numbers (
        name text COLLATE "C" PRIMARY KEY,
        number bigint NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT pg_catalog.now()
      )`,
      "INSERT INTO did_auth_numbers (name, number) VALUES ('usesForgottenUntil', 0)"
    ]
  }
]

/** Unlogged: written at half the cost, and empty after a crash or a failover, so that quotas begin again. */
function quotaTable(name: string): string[] {
  return [
    `CREATE UNLOGGED TABLE ${name} (
      quota_key text COLLATE "C" NOT NULL,
      service smallint NOT NULL,
      count bigint NOT NULL,
      resets_at bigint NOT NULL,
      PRIMARY KEY (quota_key, service)
    ) WITH (fillfactor = 70)`,
    `CREATE INDEX ${name}_by_end ON ${name} (resets_at)`
  ]
}

/** The first 16 bytes that a user's rows begin with are enough to tell users apart. */
export const USER_KEY_BYTES = 16

const SECONDS_A_DAY = 86_400

/** The first day that begins after a moment. */
export function sweepDay(expiresAtSeconds: number): number {
  return Math.ceil(expiresAtSeconds / SECONDS_A_DAY)
}

/** The day that a moment lies in. */
export function dayOf(seconds: number): number {
  return Math.floor(seconds / SECONDS_A_DAY)
}
