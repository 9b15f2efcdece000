import { fileURLToPath } from 'node:url'

const rootDir = fileURLToPath(new URL('..', import.meta.url))

const shared = {
  rootDir,
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': ['@swc/jest', { jsc: { target: 'es2023', parser: { syntax: 'typescript' } }, swcrc: false }]
  },
  modulePathIgnorePatterns: ['<rootDir>/dist/']
}

const moduleNameMapper = {
  // The package by its own name means the sources, so that no test ever runs against an old build.
  '^express-did-auth$': '<rootDir>/src/index.ts',
  '^express-did-auth/protocol$': '<rootDir>/src/protocol/index.ts',
  '^express-did-auth/stores/(.*)$': '<rootDir>/src/stores/$1.ts',
  '^express-did-auth/testing$': '<rootDir>/src/testing.ts',
  // NodeNext writes `./x.js` for x.ts; packages in node_modules mean the .js that they say, hence this order.
  '^(\\.{1,2}/.*)\\.js$': ['$1.js', '$1.ts']
}

export default {
  rootDir,
  // v8 coverage counts lines that swc made up.
  coverageProvider: 'babel',
  collectCoverageFrom: ['src/**/*.ts', 'servers/**/*.ts'],
  coverageDirectory: '<rootDir>/.cache/coverage',
  reporters: ['default', '<rootDir>/.config/totals-reporter.js'],
  projects: [
    {
      ...shared,
      displayName: 'express5',
      testMatch: ['<rootDir>/test/**/*.test.ts'],
      moduleNameMapper
    },
    {
      ...shared,
      displayName: 'express4',
      testMatch: [
        '<rootDir>/test/http/**/*.test.ts',
        '<rootDir>/test/setup-did-auth*.test.ts',
        '<rootDir>/test/servers/**/*.test.ts',
        '<rootDir>/test/relay/**/*.test.ts',
        '<rootDir>/test/vault/**/*.test.ts'
      ],
      // Without Express, and not worth the time of their processes twice.
      testPathIgnorePatterns: [
        '/test/servers/(?:cli|docker|identity|one-at-a-time|read-env|required-packages|serve|start-error)[.]test[.]ts$',
        '/test/vault/(?:crash-points|pin-[a-z]+|reconcile[a-z-]*|takedown)[.]test[.]ts$'
      ],
      // Code and tests alike get Express 4, whoever imports it.
      moduleNameMapper: { '^express$': 'express4', ...moduleNameMapper }
    }
  ]
}
