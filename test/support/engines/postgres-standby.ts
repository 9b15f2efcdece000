import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getPostgresCode } from '../../../src/stores/postgres/index.js'
import { debianPrograms, runOn, runPostgresProgram, startPostgres, type PostgresEngine } from './postgres-server.js'
import { until } from '../fixtures/until.js'

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

/** A database whose disk can be filled. */
export interface FullDisk {
  readonly url: string
  /** Refuses everything that needs space with 53100, until it is freed. */
  fill(): Promise<void>
  free(): Promise<void>
  remove(): Promise<void>
}

/**
 * Starts a PostgreSQL with a database in a small tablespace on a disk of its own. Where this process may mount none, it
 * refuses each new row as PostgreSQL does on a full disk.
 */
export async function startFullDisk(): Promise<FullDisk> {
  const folder = mkdtempSync(join(tmpdir(), 'did-auth-disk-'))
  const isDisk = process.getuid?.() === 0 && mayMount(folder)
  const engine = await startPostgres({}, isDisk ? { disk: { folder, size: '12m' } } : {})
  if (isDisk) await runOn(engine.url(), `CREATE TABLESPACE small LOCATION '${folder}'`)
  await runOn(engine.url(), `CREATE DATABASE app ${isDisk ? 'TABLESPACE small' : ''}`)
  const url = engine.url('app')
  return { url, ...(isDisk ? smallDisk(url) : refusals(url)), remove: () => removed(engine, folder) }
}

async function removed(engine: PostgresEngine, folder: string): Promise<void> {
  await engine.remove()
  rmSync(folder, { recursive: true, force: true })
}

function mayMount(folder: string): boolean {
  const script = 'mount -t tmpfs tmpfs "$1" && setpriv --version'
  return spawnSync('unshare', ['-m', 'sh', '-c', script, 'sh', folder]).status === 0
}

function smallDisk(url: string): Pick<FullDisk, 'fill' | 'free'> {
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
      // The space of a dropped table is given back at a checkpoint.
      await runOn(url, 'CHECKPOINT')
    }
  }
}

function refusals(url: string): Pick<FullDisk, 'fill' | 'free'> {
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
