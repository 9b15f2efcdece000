import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getPostgresCode } from '../../../src/stores/postgres/index.js'
import { debianPrograms, runOn, runPostgresProgram, startPostgres, type PostgresEngine } from './postgres-server.js'
import { until } from '../fixtures/until.js'

/** Starts a PostgreSQL server that can have standbys. */
export function startPrimary(): Promise<PostgresEngine> {
  return startPostgres({}, { isDebian: true })
}

/**
 * Starts a standby from a copy of a running server.
 *
 * @param port - port of the primary after the copy; may be that of a proxy
 */
export async function startStandby(primary: PostgresEngine, port = primary.port): Promise<PostgresEngine> {
  const createConnectionString = (port: number): string =>
    `host=127.0.0.1 port=${port} user=postgres application_name=standby`
  const fill = (_programs: string, data: string): void => {
    const args = [
      '--pgdata',
      data,
      '--dbname',
      createConnectionString(primary.port),
      '--write-recovery-conf',
      '--checkpoint=fast'
    ]
    runPostgresProgram(`${debianPrograms()}/pg_basebackup`, [...args, '--wal-method=stream', '--no-sync'])
  }
  const standby = await startPostgres({ primary_conninfo: createConnectionString(port) }, { isDebian: true, fill })
  await until(async () => (await runOn(primary.url(), 'SELECT 1 FROM pg_stat_replication')).length === 1)
  return standby
}

/** Sets whether a primary confirms a commit only after a standby has received it. */
export async function waitForStandby(primary: PostgresEngine, isOn: boolean): Promise<void> {
  await runOn(primary.url(), `ALTER SYSTEM SET synchronous_standby_names = '${isOn ? 'ANY 1 (standby)' : ''}'`)
  await runOn(primary.url(), 'SELECT pg_reload_conf()')
  if (!isOn) return
  const synchronous = `SELECT 1 FROM pg_stat_replication WHERE sync_state = 'quorum'`
  await until(async () => (await runOn(primary.url(), synchronous)).length === 1)
}

/** Promotes a standby to primary, and waits until it accepts writes. */
export async function promote(standby: PostgresEngine): Promise<void> {
  await runOn(standby.url(), `SELECT pg_promote()`)
  await until(async () => (await runOn(standby.url(), 'SELECT 1 WHERE NOT pg_is_in_recovery()')).length === 1)
}

/** A database whose disk can be filled. */
export interface FullDisk {
  readonly url: string
  /** Fills the disk. Until `free`, everything that needs space fails with SQLSTATE 53100. */
  fill(): Promise<void>
  free(): Promise<void>
  remove(): Promise<void>
}

/**
 * Starts a PostgreSQL server with a database in a small tablespace on a separate disk. If this process cannot mount a
 * disk, triggers refuse new rows with the same error as a full disk.
 */
export async function startFullDisk(): Promise<FullDisk> {
  const folder = mkdtempSync(join(tmpdir(), 'did-auth-disk-'))
  const isDisk = process.getuid?.() === 0 && canMount(folder)
  const engine = await startPostgres({}, isDisk ? { disk: { folder, size: '12m' } } : {})
  if (isDisk) await runOn(engine.url(), `CREATE TABLESPACE small LOCATION '${folder}'`)
  await runOn(engine.url(), `CREATE DATABASE app ${isDisk ? 'TABLESPACE small' : ''}`)
  const url = engine.url('app')
  return {
    url,
    ...(isDisk ? createRealDisk(url) : createSimulatedDisk(url)),
    remove: () => removeEngine(engine, folder)
  }
}

async function removeEngine(engine: PostgresEngine, folder: string): Promise<void> {
  await engine.remove()
  rmSync(folder, { recursive: true, force: true })
}

function canMount(folder: string): boolean {
  const script = 'mount -t tmpfs tmpfs "$1" && setpriv --version'
  return spawnSync('unshare', ['-m', 'sh', '-c', script, 'sh', folder]).status === 0
}

function createRealDisk(url: string): Pick<FullDisk, 'fill' | 'free'> {
  const insert = `INSERT INTO filler SELECT sha256(number::text::bytea) FROM generate_series(1, $1::int) number`
  const isFull = (rows: number): Promise<boolean> =>
    runOn(url, insert, [rows]).then(
      () => false,
      (error: unknown) => getPostgresCode(error) === '53100'
    )
  return {
    async fill() {
      await runOn(url, 'CREATE TABLE filler (bytes bytea)')
      for (const rows of [10_000, 1_000, 100, 1]) await until(() => isFull(rows))
    },
    async free() {
      await runOn(url, 'DROP TABLE filler')
      // A checkpoint releases the space of a dropped table.
      await runOn(url, 'CHECKPOINT')
    }
  }
}

function createSimulatedDisk(url: string): Pick<FullDisk, 'fill' | 'free'> {
  const refuse = `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$`
  return {
    async fill() {
      await runOn(url, refuse)
      for (const table of ['vault_contents', 'did_auth_anonymous_quotas']) {
        await runOn(url, `CREATE TRIGGER refuse BEFORE INSERT ON ${table} EXECUTE FUNCTION refuse()`)
      }
    },
    async free() {
      await runOn(url, 'DROP FUNCTION refuse CASCADE')
    }
  }
}
