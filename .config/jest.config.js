import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { findChromium, findHaproxy, findRedis, missingEngines } from './find-engines.js'

const rootDir = fileURLToPath(new URL('..', import.meta.url))

const shared = {
  rootDir,
  testEnvironment: 'node',
  globalSetup: '<rootDir>/.config/compile-for-tests.js',
  globalTeardown: '<rootDir>/.config/remove-compiled.js',
  setupFilesAfterEnv: ['<rootDir>/test/support/limit-test-time.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': '<rootDir>/.config/jest-transform.js' },
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/servers/dist/']
}

/** Missing engines, which npm does not provide. Their tests are left out, which the totals reporter says. */
const missing = missingEngines()
if (missing.length > 0 && process.env.NO_SKIPS === '1') {
  for (const { what, packages } of missing) console.error(`NO_SKIPS=1, and there is no ${what}: ${packages.join(' ')}`)
  process.exit(1)
}
const leftOut = missing.map(({ pattern }) => pattern)
Object.assign(process.env, {
  CHROMIUM: findChromium() ?? '',
  REDIS_SERVER: findRedis() ?? '',
  HAPROXY: findHaproxy() ?? ''
})

const moduleNameMapper = {
  '^[.]/(?:stores/sqlite/)?start-worker[.]js$': '<rootDir>/test/support/start-sqlite-worker.ts',
  // The package's own name resolves to the sources, so that no test runs against an old build.
  '^express-did-auth$': '<rootDir>/src/index.ts',
  '^express-did-auth/(?!package.json)(.*)$': ['<rootDir>/src/$1/index.ts', '<rootDir>/src/$1.ts'],
  // Packages that an example and a recipe import. Only the slow tests install them.
  '^oidc-provider$': '<rootDir>/test/slow/node_modules/oidc-provider/lib/index.js',
  '^hono$': '<rootDir>/test/slow/node_modules/hono/dist/index.js',
  // NodeNext writes `./x.js` for x.ts; packages in node_modules mean the .js that they say, hence this order.
  '^(\\.{1,2}/.*)\\.js$': ['$1.js', '$1.ts']
}

/** Files that take long: `npm run test:slow` runs them, `npm test` does not. */
const SLOW = '[.]slow[.]test[.]ts$'

const suite = (projects) => ({
  rootDir,
  // Jest itself would use one core of two.
  maxWorkers: Math.max(2, availableParallelism() - 1),
  // v8 coverage counts lines that the compiler made up.
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
  // Code and tests alike get Express 4, whichever of them imports it.
  moduleNameMapper: { '^express$': 'express4', ...moduleNameMapper }
}

/** The slow files. Malformed requests are parsed by Express, so they are sent to both versions of it. */
export const slowSuite = suite([
  { ...express5, testMatch: ['<rootDir>/test/**/*.slow.test.ts'], testPathIgnorePatterns: leftOut },
  {
    ...express4,
    testMatch: [
      '<rootDir>/test/{http,servers/*}/malformed.slow.test.ts',
      '<rootDir>/test/servers/auth/process.slow.test.ts'
    ]
  }
])

export default suite([
  { ...express5, testMatch: ['<rootDir>/test/**/*.test.ts'], testPathIgnorePatterns: [SLOW, ...leftOut] },
  {
    ...express4,
    // Tests that depend on Express: parsers, errors, cookies, routers and middleware of the library, and one file per
    // server that uses all of these. Rules that are independent of Express are tested once, on Express 5.
    testMatch: [
      '<rootDir>/test/http/{approval,cookies,failures,guard-csrf,host,limits}.test.ts',
      '<rootDir>/test/http/{log-in,log-out,parser-refusal,read-request}.test.ts',
      '<rootDir>/test/http/{require-did,send-error,sessions}.test.ts',
      '<rootDir>/test/setup-did-auth.test.ts',
      '<rootDir>/test/testing/signed-in.test.ts',
      '<rootDir>/test/servers/*/app.test.ts',
      '<rootDir>/test/servers/commands/conformance/command.test.ts',
      '<rootDir>/test/servers/http/create-app.test.ts',
      '<rootDir>/test/servers/relay/relay-file.test.ts',
      '<rootDir>/test/servers/vault/verbs.test.ts'
    ],
    testPathIgnorePatterns: [SLOW]
  }
])
