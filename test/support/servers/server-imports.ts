/**
 * Preloaded with `--import`: maps the names of library and client to their sources, like Jest's moduleNameMapper in a
 * test. No build is needed, and no outdated one can be used.
 *
 * With `TEST_EXPRESS=4`, `express` is Express 4. A package named in `TEST_MISSING` seems not to be installed.
 */
import { register } from 'node:module'

const { TEST_EXPRESS, TEST_MISSING = '' } = process.env
const src = new URL('../../../src/', import.meta.url).href
/** File ending of the sources, which is that of this file: both are TypeScript, or both are compiled. */
const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
/** Top of the checkout. Compiled files are in a folder of `.cache`. */
const root = new URL(ending === 'ts' ? '../../../' : '../../../../../', import.meta.url)
const sqliteWorker = new URL(`./start-sqlite-worker.${ending}`, import.meta.url).href
const names: Record<string, string> = {
  'express-did-auth': `${src}index.${ending}`,
  'express-did-auth/protocol': `${src}protocol/index.${ending}`,
  'express-did-auth/server-kit': `${src}server-kit.${ending}`,
  'express-did-auth/stores/postgres': `${src}stores/postgres/index.${ending}`,
  'express-did-auth/stores/redis': `${src}stores/redis/index.${ending}`,
  'express-did-auth/stores/sqlite': `${src}stores/sqlite/index.${ending}`,
  'express-did-auth/testing': `${src}testing/index.${ending}`,
  'express-did-auth/verify': `${src}verify/index.${ending}`,
  'express-did-auth-client': `${src}client/index.${ending}`,
  // Threads run files that .config/compile-for-tests.js has built, because module hooks do not affect threads.
  './start-worker.js': sqliteWorker,
  './stores/sqlite/start-worker.js': sqliteWorker,
  ...(TEST_EXPRESS === '4' && { express: new URL('test/slow/node_modules/express4/index.js', root).href })
}

const hook = `
  const names = new Map(Object.entries(${JSON.stringify(names)}))
  const missing = new Set(${JSON.stringify(TEST_MISSING.split(','))})
  export function resolve(name, context, next) {
    if (missing.has(name)) throw Object.assign(new Error('hidden'), { code: 'ERR_MODULE_NOT_FOUND' })
    return next(names.get(name) ?? name, context)
  }`

register(`data:text/javascript,${encodeURIComponent(hook)}`)
