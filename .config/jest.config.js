import { statfsSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { availableParallelism, freemem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { findChromium, findFirefox, findHaproxy, findRedis, missingEngines } from './find-engines.js'

const rootDir = fileURLToPath(new URL('..', import.meta.url))

const shared = {
  rootDir,
  testEnvironment: '<rootDir>/.config/jest-environment.js',
  globalSetup: '<rootDir>/.config/compile-for-tests.js',
  globalTeardown: '<rootDir>/.config/remove-compiled.js',
  setupFilesAfterEnv: ['<rootDir>/test/support/fixtures/limit-test-time.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': '<rootDir>/.config/jest-transform.js' },
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/src/client/dist/', '<rootDir>/servers/dist/']
}

/** Missing programs, which npm does not provide. Their tests are skipped, and the totals reporter lists them. */
const missing = missingEngines()
if (missing.length > 0 && process.env.NO_SKIPS === '1') {
  for (const { what, packages } of missing)
    console.error(`NO_SKIPS=1 requires ${what}, which is missing. Install ${packages.join(' ')}.`)
  process.exit(1)
}
const skippedFiles = missing.map(({ pattern }) => pattern)
Object.assign(process.env, {
  CHROMIUM: findChromium() ?? '',
  FIREFOX: findFirefox() ?? '',
  REDIS_SERVER: findRedis() ?? '',
  HAPROXY: findHaproxy() ?? ''
})

/** Folder in memory, which Linux has. */
const MEMORY = '/dev/shm'
const NEEDED_BYTES = 8 * 2 ** 30

/** Whether the folder in memory has enough space for the databases and installations of all tests. */
function hasSpaceInMemory() {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return Math.min(bavail * bsize, freemem()) >= NEEDED_BYTES
  } catch {
    return false
  }
}

// Databases wait for the disk at each commit. No test depends on that wait, because no test cuts the power.
if (process.env.TMPDIR === undefined && hasSpaceInMemory()) process.env.TMPDIR = MEMORY

const moduleNameMapper = {
  '^[.]/(?:stores/sqlite/)?start-worker[.]js$': '<rootDir>/test/support/servers/start-sqlite-worker.ts',
  // The names of library and client resolve to the sources, so that tests never use an old build.
  '^express-did-auth$': '<rootDir>/src/index.ts',
  '^express-did-auth/(?!package.json|client)(.*)$': ['<rootDir>/src/$1/index.ts', '<rootDir>/src/$1.ts'],
  '^express-did-auth-client$': '<rootDir>/src/client/index.ts',
  '^express-did-auth-client/(?!package.json)(.*)$': '<rootDir>/src/client/$1/index.ts',
  // Examples and a recipe import these packages, which only the slow tests install.
  '^@modelcontextprotocol/sdk/(.*)$': '<rootDir>/test/slow/node_modules/@modelcontextprotocol/sdk/dist/esm/$1',
  '^@modelcontextprotocol/(client|node|server)$':
    '<rootDir>/test/slow/node_modules/@modelcontextprotocol/$1/dist/index.mjs',
  '^@aws-sdk/client-kms$': '<rootDir>/test/slow/node_modules/@aws-sdk/client-kms/dist-cjs/index.js',
  '^oidc-provider$': '<rootDir>/test/slow/node_modules/oidc-provider/lib/index.js',
  '^hono$': '<rootDir>/test/slow/node_modules/hono/dist/index.js',
  '^@hono/node-server$': '<rootDir>/test/slow/node_modules/@hono/node-server/dist/index.mjs',
  '^@hono/node-server/conninfo$': '<rootDir>/test/slow/node_modules/@hono/node-server/dist/conninfo.mjs',
  // Files of test/support, too.
  '^(ethr-did-registry|playwright-core)$': '<rootDir>/test/slow/node_modules/$1',
  // Under NodeNext, sources import x.ts as `./x.js`. Packages in node_modules have real .js files, which come first.
  '^(\\.{1,2}/.*)\\.js$': ['$1.js', '$1.ts']
}

/** Slow test files, which `npm run test:slow` runs and `npm test` does not. */
const SLOW = '[.]slow[.]test[.]ts$'

// Jest's default would use only one of two cores.
const suite = (projects, maxWorkers = Math.max(2, availableParallelism() - 1)) => ({
  rootDir,
  testSequencer: '<rootDir>/.config/longest-first.js',
  maxWorkers,
  // Jest's default of half a second would be too short for a busy machine. Jest then kills the worker, and blames a test.
  workerGracefulExitTimeout: 60_000,
  // v8 coverage would count lines that the compiler generates.
  coverageProvider: 'babel',
  collectCoverageFrom: ['src/**/*.ts', 'servers/**/*.ts'],
  coverageDirectory: '<rootDir>/.cache/coverage',
  reporters: ['default', '<rootDir>/.config/totals-reporter.js'],
  projects
})

const express5 = { ...shared, displayName: 'express5', moduleNameMapper }

const express4 = {
  ...shared,
  displayName: 'express4',
  // Both code and tests import Express 4.
  moduleNameMapper: { '^express$': '<rootDir>/test/slow/node_modules/express4', ...moduleNameMapper }
}

const fetchAdapter = {
  ...shared,
  displayName: 'fetch',
  moduleNameMapper,
  // `testApp()` sets up `createDidAuth` instead of `setupDidAuth`.
  globals: { didAuthAdapter: 'fetch' }
}

/**
 * Tests of SQLite with its threads, as in production. Where `npm test` uses Node's own SQLite, they use better-sqlite3,
 * except on Node 24: better-sqlite3 before version 13 aborts it.
 */
const sqliteThreads = {
  ...express5,
  displayName: 'threads',
  globals: {
    hasSqliteThreads: true,
    ...(isBuiltin('node:sqlite') && Number.parseInt(process.versions.node) < 24 && { sqliteEngine: 'better-sqlite3' })
  },
  testMatch: [
    '<rootDir>/test/contracts/{content-store,store}.test.ts',
    '<rootDir>/test/stores/{sql-upkeep,sqlite-*,sweep-clock}.test.ts'
  ],
  testPathIgnorePatterns: [SLOW]
}

/** Tests whose number of random rounds or size of content is reduced in `npm test`, by `sampled()` or `isRepeated`. */
const rounds = {
  ...express5,
  displayName: 'rounds',
  globals: { isRepeated: true },
  testMatch: [
    '<rootDir>/test/{adapters/curve,client/cid,client/relay-failures,fetch/negotiate-type}.test.ts',
    '<rootDir>/test/{flows/repeat-refresh,http/lost-answers,http/races}.test.ts',
    '<rootDir>/test/protocol/{encoding,session,siwe-message}.test.ts',
    '<rootDir>/test/servers/{content/send-content,content/unixfs-blocks,http/pipelining}.test.ts'
  ]
}

/**
 * Slow tests, and repetitions of fast ones: with Express 4 those that depend on Express, and through the Fetch API those
 * of requests and responses.
 */
const slowProjects = [
  { ...express5, testMatch: ['<rootDir>/test/**/*.slow.test.ts'], testPathIgnorePatterns: skippedFiles },
  {
    ...express4,
    // Parsers, errors, cookies, routers and middleware of the library, and one file per server that uses all of these.
    testMatch: [
      '<rootDir>/test/http/{approval,cookies,failures,guard-csrf,host,limits}.test.ts',
      '<rootDir>/test/http/{log-in,log-out,parser-refusal,read-request}.test.ts',
      '<rootDir>/test/http/{require-did,send-error,sessions}.test.ts',
      '<rootDir>/test/setup-did-auth.test.ts',
      '<rootDir>/test/testing/signed-in.test.ts',
      '<rootDir>/test/servers/*/app.test.ts',
      '<rootDir>/test/servers/http/create-app.test.ts',
      '<rootDir>/test/servers/relay/relay-file.test.ts',
      '<rootDir>/test/servers/vault/verbs.test.ts',
      '<rootDir>/test/{http,servers/*}/malformed.slow.test.ts',
      '<rootDir>/test/servers/auth/process.slow.test.ts'
    ]
  },
  {
    ...fetchAdapter,
    testMatch: ['<rootDir>/test/http/*.test.ts'],
    testPathIgnorePatterns: [
      // Slow tests start servers and engines of their own.
      SLOW,
      // Tests of Express itself: approvals, its routers and body parsers, requests without it.
      '/(approval|authenticate|host|parser-refusal)[.]test[.]ts$',
      // These tests do not depend on the adapter.
      '/(contract-accounts|credential-status|describe-user-agent|key-rotation|lost-answers)[.]test[.]ts$'
    ]
  },
  sqliteThreads,
  rounds
]

// Many slow tests wait for processes and browsers, so there is one worker more than cores.
export const slowSuite = suite(slowProjects, availableParallelism() + 1)

export default suite([
  { ...express5, testMatch: ['<rootDir>/test/**/*.test.ts'], testPathIgnorePatterns: [SLOW, ...skippedFiles] }
])
