import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const NAMES = ['redis-server', 'valkey-server']

/**
 * The Redis or Valkey server for tests, on the `PATH`.
 *
 * @returns undefined where there is none
 */
export function findRedis({ PATH: path = '' } = process.env) {
  return path
    .split(delimiter)
    .flatMap((folder) => NAMES.map((name) => join(folder, name)))
    .find((file) => existsSync(file))
}

/** Patterns of the tests that have to be left out: most run on the Redis of `TEST_REDIS_URL` too, faults need one to stop. */
export function testsWithoutRedis(environment = process.env) {
  if (findRedis(environment) !== undefined) return []
  const faults = '[.]redis-faults[.](?:slow[.])?test[.]ts$'
  return environment.TEST_REDIS_URL ? [faults] : ['[.]redis[.](?:slow[.])?test[.]ts$', faults]
}
