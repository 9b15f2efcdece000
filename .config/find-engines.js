import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const SWIFT = ['swift-proxy', 'swift-object', 'swift-container', 'swift-account']

/**
 * Finds the Chromium for browser tests: the path in `CHROMIUM`, otherwise a program on the `PATH`.
 *
 * @returns its path; undefined if there is none
 */
export function findChromium({ CHROMIUM: chosen = '', PATH: path = '' } = process.env) {
  if (chosen !== '') return existsSync(chosen) ? chosen : undefined
  return findProgram(['chromium', 'chromium-browser', 'google-chrome'], path)
}

/**
 * Finds the Firefox for browser tests: the path in `FIREFOX`, otherwise a program on the `PATH`.
 *
 * @returns its path; undefined if there is none
 */
export function findFirefox({ FIREFOX: chosen = '', PATH: path = '' } = process.env) {
  if (chosen !== '') return existsSync(chosen) ? chosen : undefined
  return findProgram(['firefox-esr', 'firefox'], path)
}

/** Finds a Redis or Valkey server on the `PATH`. */
export function findRedis({ PATH: path = '' } = process.env) {
  return findProgram(['redis-server', 'valkey-server'], path)
}

/** Finds HAProxy, which Debian installs in a folder that is only on root's `PATH`. */
export function findHaproxy({ PATH: path = '' } = process.env) {
  return findProgram(['haproxy'], [path, '/usr/sbin', '/usr/local/sbin'].join(delimiter))
}

/** Finds promtool, which checks and tests alert rules of Prometheus. */
export function findPromtool({ PATH: path = '' } = process.env) {
  return findProgram(['promtool'], path)
}

/** Whether Python 3.9 or newer and its package cryptography are installed. */
function hasPython() {
  return spawnSync('python3', ['-c', 'import cryptography, sys; assert sys.version_info >= (3, 9)']).status === 0
}

/** Whether Debian's PostgreSQL is installed. It includes pg_basebackup, which the npm package lacks. */
function hasStandby() {
  const folder = '/usr/lib/postgresql'
  const version = existsSync(folder) ? readdirSync(folder).at(-1) : undefined
  return version !== undefined && existsSync(join(folder, version, 'bin', 'pg_basebackup'))
}

/**
 * Lists missing programs that tests need and npm does not provide. Their tests are skipped, which the totals show.
 *
 * @returns for each missing program: its name, its test files (as a pattern and in words), and its Debian packages
 */
export function missingEngines(environment = process.env) {
  const { PATH: path = '', TEST_REDIS_URL: redisUrl } = environment
  const missing = []
  if (findChromium(environment) === undefined) {
    missing.push(engine('Chromium', 'browser', ['chromium']))
  }
  if (findFirefox(environment) === undefined) missing.push(engine('Firefox', 'firefox', ['firefox-esr']))
  if (findRedis(environment) === undefined) {
    // Most Redis tests can use the server of `TEST_REDIS_URL`. Tests of faults need a server that they can stop.
    if (!redisUrl) missing.push(engine('Redis', 'redis', ['redis-server']))
    missing.push(engine('faults of Redis', 'redis-faults', ['redis-server']))
  }
  const programs = [...SWIFT.map((name) => `${name}-server`), 'swift-ring-builder', 'memcached']
  if (programs.some((name) => findProgram([name], path) === undefined)) {
    missing.push(engine('OpenStack Swift', 'swift', [...SWIFT, 'memcached']))
  }
  if (!hasStandby()) missing.push(engine('standbys of PostgreSQL', 'standby', ['postgresql']))
  if (findHaproxy(environment) === undefined) missing.push(engine('HAProxy', 'haproxy', ['haproxy']))
  if (findPromtool(environment) === undefined) missing.push(engine('Prometheus', 'prometheus', ['prometheus']))
  if (!hasPython()) missing.push(engine('Python', 'python', ['python3-cryptography']))
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
