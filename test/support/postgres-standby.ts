import { runOn, startPostgres, type PostgresEngine } from './postgres-server.js'
import { debianPrograms, runPostgresProgram } from './postgres-programs.js'
import { until } from './until.js'

/** Starts a PostgreSQL that others can be a standby of. */
export function startPrimary(): Promise<PostgresEngine> {
  return startPostgres({}, { isDebian: true })
}

/**
 * Starts a standby, as a copy of a running server.
 *
 * @param port - where it reaches its primary later, which may be that of a proxy
 */
export async function startStandby(primary: PostgresEngine, port = primary.port): Promise<PostgresEngine> {
  const place = (of: number): string => `host=127.0.0.1 port=${of} user=postgres application_name=standby`
  const fill = (_programs: string, data: string): void => {
    const args = ['--pgdata', data, '--dbname', place(primary.port), '--write-recovery-conf', '--checkpoint=fast']
    runPostgresProgram(`${debianPrograms()}/pg_basebackup`, [...args, '--wal-method=stream', '--no-sync'])
  }
  const standby = await startPostgres({ primary_conninfo: place(port) }, { isDebian: true, fill })
  await until(async () => (await runOn(primary.url(), 'SELECT 1 FROM pg_stat_replication')).length === 1)
  return standby
}

/** Sets whether a primary answers a commit only once a standby has it. */
export async function waitForStandby(primary: PostgresEngine, isOn: boolean): Promise<void> {
  await runOn(primary.url(), `ALTER SYSTEM SET synchronous_standby_names = '${isOn ? 'ANY 1 (standby)' : ''}'`)
  await runOn(primary.url(), 'SELECT pg_reload_conf()')
  if (!isOn) return
  const synchronous = `SELECT 1 FROM pg_stat_replication WHERE sync_state = 'quorum'`
  await until(async () => (await runOn(primary.url(), synchronous)).length === 1)
}

/** Makes a standby the primary. */
export async function promote(standby: PostgresEngine): Promise<void> {
  await runOn(standby.url(), `SELECT pg_promote()`)
  await until(async () => (await runOn(standby.url(), 'SELECT 1 WHERE NOT pg_is_in_recovery()')).length === 1)
}
