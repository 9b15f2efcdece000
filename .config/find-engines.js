import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const SWIFT = ['swift-proxy', 'swift-object', 'swift-container', 'swift-account']

/**
 * The Chromium for tests in a browser: the one that `CHROMIUM` names, else one on the `PATH`.
 *
 * @returns undefined if there is none
 */
export function findChromium({ CHROMIUM: own = '', PATH: path = '' } = process.env) {
  if (own !== '') return existsSync(own) ? own : undefined
  return findProgram(['chromium', 'chromium-browser', 'google-chrome'], path)
}

/** Returns the Redis or Valkey server for tests on the `PATH`; undefined if there is none. */
export function findRedis({ PATH: path = '' } = process.env) {
  return findProgram(['redis-server', 'valkey-server'], path)
}

/** HAProxy, which Debian puts where only root looks. */
export function findHaproxy({ PATH: path = '' } = process.env) {
  return findProgram(['haproxy'], [path, '/usr/sbin', '/usr/local/sbin'].join(delimiter))
}

/** Whether there is Debian's PostgreSQL, which can copy a running server; that of npm cannot. */
function hasStandby() {
  const folder = '/usr/lib/postgresql'
  const version = existsSync(folder) ? readdirSync(folder).at(-1) : undefined
  return version !== undefined && existsSync(join(folder, version, 'bin', 'pg_basebackup'))
}

/**
 * Lists programs that tests need, npm does not have, and this machine lacks. Their tests are skipped, as the totals say.
 *
 * @returns of each that is missing: what it is, the files, as a pattern and for people, and the packages of Debian
 */
export function missingEngines(environment = process.env) {
  const { PATH: path = '', TEST_REDIS_URL: redisUrl } = environment
  const missing = []
  if (findChromium(environment) === undefined) {
    missing.push(engine('a browser', 'browser', ['chromium']))
  }
  if (findRedis(environment) === undefined) {
    // Most of them run on the Redis of `TEST_REDIS_URL` as well; faults need one that can be stopped.
    if (!redisUrl) missing.push(engine('Redis', 'redis', ['redis-server']))
    missing.push(engine('faults of Redis', 'redis-faults', ['redis-server']))
  }
  const programs = [...SWIFT.map((name) => `${name}-server`), 'swift-ring-builder', 'memcached']
  if (programs.some((name) => findProgram([name], path) === undefined)) {
    missing.push(engine('OpenStack Swift', 'swift', [...SWIFT, 'memcached']))
  }
  if (!hasStandby()) missing.push(engine('standbys of PostgreSQL', 'standby', ['postgresql']))
  if (findHaproxy(environment) === undefined) missing.push(engine('HAProxy', 'haproxy', ['haproxy']))
  return missing
}

function engine(what, name, packages) {
  return { what, pattern: `[.]${name}[.](?:slow[.])?test[.]ts$`, files: `*.${name}.*`, packages }
}

function findProgram(names, path) {
  return path
    .split(delimiter)
    .flatMap((folder) => names.map((name) => join(folder, name)))
    .find((file) => existsSync(file))
}
