import { describe, expect, it } from '@jest/globals'
import { fileURLToPath } from 'node:url'
import {
  findLayerFaults,
  listSourceFiles,
  parseImports,
  readImports,
  type Layer
} from './support/fixtures/read-imports.js'

const OWN_NAME = /^express-did-auth(-client)?(\/|$)/
const ANY = /^/

const ADAPTERS = ['pure-adapters', 'limiter', 'adapters']

/** Clock, lazy values, caches and client sites: used by every layer except errors and protocol. */
const HELPERS = 'helpers'

/** Folders that all servers share. Each imports only folders before it. */
const SHARED = 'config observability http openapi content ipfs process'.split(' ').map((folder) => `servers/${folder}`)

/**
 * Layers and their permitted imports. Each layer of the library imports only layers above it in this table. If a layer
 * needs more, a file is probably in the wrong layer. Change the table itself in the commit that moves the files.
 */
const LAYERS: readonly Layer[] = [
  { name: 'errors', files: /^src\/(?:errors|error-answer|http-messages)\.ts$/, uses: [], packages: /^$/ },
  { name: HELPERS, files: /^src\/(?:time|time-limits|lazy|caches|client-site|tracing)\.ts$/, uses: [], packages: /^$/ },
  { name: 'protocol', files: /^src\/protocol\//, uses: ['errors'], packages: /^node:buffer$/ },
  { name: 'ports', files: /^src\/(?:ports|key-ports|store-port)\.ts$/, uses: ['errors', 'protocol', HELPERS] },
  { name: 'config', files: /^src\/config\//, uses: ['errors', 'protocol', 'ports'] },
  // Information about a user that guards add to a request, and the check `allow` on it.
  { name: 'auth-info', files: /^src\/did-auth-info\.ts$/, uses: ['errors', 'protocol'], packages: /^$/ },
  // Types of Express. Contains no code.
  { name: 'express-types', files: /^src\/(?:express-types|types)\.ts$/, uses: ['auth-info'], packages: /^$/ },
  { name: 'flows', files: /^src\/flows\//, uses: ['errors', 'protocol', 'ports', 'config', HELPERS] },
  // Knows no framework.
  {
    name: 'http',
    files: /^src\/http\//,
    uses: ['errors', 'protocol', 'ports', 'config', 'auth-info', 'flows', HELPERS],
    packages: /^node:\w+$/
  },
  // Both adapters of a framework parse cookies in the same way.
  { name: 'cookies', files: /^src\/cookies\.ts$/, uses: [], packages: /^cookie-parser$/ },
  // Express is an optional peer: only its types are imported, so that the package loads without it.
  {
    name: 'express',
    files: /^src\/express\//,
    uses: ['errors', 'protocol', 'ports', 'config', 'auth-info', 'cookies', 'http', 'request', HELPERS],
    packages: /^node:\w+$/,
    typePackages: /^express$/
  },
  // Adapters that run anywhere: they use no module of Node and no WebAssembly.
  {
    name: 'pure-adapters',
    files:
      /^src\/adapters\/(?:cached-issuer-keys|curve-pure|did-document|ended-session-reader|fetch-bounded|in-flight-requests|named-keys|resource-issuer)\.ts$/,
    uses: ['errors', 'protocol', 'ports', HELPERS],
    packages: /^(?:@noble\/.*|jose)$/
  },
  // The deadline and the client of a request, which setup passes on, also to the store.
  { name: 'request', files: /^src\/current-client\.ts$/, uses: ['errors', 'ports', HELPERS], packages: /^node:/ },
  // Fair shares for client networks, also in stores.
  {
    name: 'limiter',
    files: /^src\/adapters\/(?:concurrency-limiter|network-shares)\.ts$/,
    uses: ['errors', 'ports', HELPERS],
    packages: /^node:events$/
  },
  {
    name: 'adapters',
    files: /^src\/adapters\//,
    uses: ['errors', 'protocol', 'ports', 'pure-adapters', 'limiter', 'request', HELPERS]
  },
  {
    name: 'compose',
    files: /^src\/compose-service\.ts$/,
    uses: ['errors', 'protocol', 'ports', 'config', 'flows', 'http', ...ADAPTERS, 'stores', HELPERS],
    packages: /^$/
  },
  {
    name: 'setup',
    files: /^src\/setup-did-auth\.ts$/,
    uses: ['errors', 'config', 'express-types', 'http', 'express', 'request', 'adapters', 'compose'],
    packages: /^node:http$/
  },
  // Request and Response of the Fetch API. Knows no framework.
  {
    name: 'fetch',
    files: /^src\/fetch\/(?!index\.ts$)/,
    uses: ['errors', 'protocol', 'ports', 'cookies', 'config', 'auth-info', 'http', 'request', 'compose', HELPERS],
    packages: /^node:buffer$/
  },
  // The entry `express-did-auth/fetch`. Its signers and the memory store are public, as those of the index.
  {
    name: 'fetch/index',
    files: /^src\/fetch\/index\.ts$/,
    uses: ['errors', 'ports', 'config', 'auth-info', 'http', 'compose', 'adapters', 'stores', 'fetch'],
    packages: /^$/
  },
  {
    name: 'index',
    files: /^src\/index\.ts$/,
    // The signer and the memory store are public. Like the other entry points, this one may import adapters.
    uses: [
      'errors',
      'protocol',
      'ports',
      'config',
      'auth-info',
      'http',
      'express',
      'compose',
      'setup',
      ...ADAPTERS,
      'stores'
    ]
  },
  // The command that writes a starter. Its templates are examples.
  { name: 'init', files: /^src\/init\.ts$/, uses: [], packages: /^node:/ },
  // Imports the servers by name at run time, where they are installed.
  { name: 'bin', files: /^src\/bin\.ts$/, uses: ['init'], packages: /^node:fs$/ },
  // Each store is also an entry point. A package that only one store uses is loaded by name at run time.
  {
    name: 'stores',
    files: /^src\/stores\//,
    uses: ['errors', 'protocol', 'ports', 'limiter', 'request', HELPERS],
    packages: /^node:/
  },
  // The other entry points. Besides setup, only they import adapters.
  { name: 'testing', files: /^src\/testing\//, uses: ['errors', 'protocol', 'ports', ...ADAPTERS, 'stores', HELPERS] },
  {
    name: 'server-kit',
    files: /^src\/server-kit\.ts$/,
    uses: [
      'errors',
      'protocol',
      'ports',
      'config',
      'flows',
      'http',
      'express',
      'request',
      ...ADAPTERS,
      'stores',
      HELPERS
    ]
  },
  // The glue is for Express, whose types it only matches structurally.
  {
    name: 'verify',
    files: /^src\/verify\//,
    uses: ['errors', 'protocol', 'ports', 'auth-info', 'express-types', 'pure-adapters', HELPERS],
    packages: /^$/
  },
  // The client, a package of its own. Its build contains the files of the protocol that it imports.
  { name: 'client/wire', files: /^src\/client\/wire\//, uses: [], packages: /^$/ },
  // Loaded on demand: an address needs its checksum.
  {
    name: 'client/checksum',
    files: /^src\/client\/wallets\/checksum\.ts$/,
    uses: ['client/wire', 'protocol'],
    packages: /^@noble\/hashes\//
  },
  { name: 'client/wallets', files: /^src\/client\/wallets\//, uses: ['client/wire'], packages: /^$/ },
  // Signs in the page.
  {
    name: 'client/passkey',
    files: /^src\/client\/passkey\//,
    uses: ['client/wire', 'client/wallets'],
    packages: /^@noble\//
  },
  // Loaded if a session is restored, because its wallet may be a passkey.
  {
    name: 'client/known-wallets',
    files: /^src\/client\/session\/known-wallets\.ts$/,
    uses: ['client/wire', 'client/wallets', 'client/passkey'],
    packages: /^$/
  },
  {
    name: 'client/siwe-login',
    files: /^src\/client\/session\/siwe-login\.ts$/,
    uses: ['client/wire', 'client/wallets', 'client/checksum', 'client/session', 'protocol'],
    packages: /^$/
  },
  {
    name: 'client/session',
    files: /^src\/client\/session\//,
    uses: ['client/wire', 'client/wallets', 'client/known-wallets', 'client/siwe-login', 'protocol'],
    packages: /^$/
  },
  {
    name: 'client',
    files: /^src\/client\/index\.ts$/,
    uses: ['client/wire', 'client/wallets', 'client/session', 'client/siwe-login', 'protocol'],
    packages: /^$/
  },
  {
    name: 'client/siwe',
    files: /^src\/client\/siwe\//,
    uses: ['client/wire', 'client/wallets', 'client/session', 'client/siwe-login', 'protocol'],
    packages: /^$/
  },
  // Optional, and only needed for QR codes.
  { name: 'client/qr', files: /^src\/client\/qr\//, uses: [], packages: /^uqr$/ },
  {
    name: 'client/relay',
    files: /^src\/client\/relay\//,
    uses: ['client/wire', 'client/wallets', 'protocol'],
    packages: /^$/
  },
  // Signs with a key of the caller. The curve is loaded on demand.
  { name: 'client/machine', files: /^src\/client\/machine\//, uses: ['client/wire'], packages: /^@noble\// },
  { name: 'client/vault', files: /^src\/client\/vault\//, uses: ['client/wire', 'protocol'], packages: /^$/ },
  {
    name: 'client/keyring',
    files: /^src\/client\/keyring\//,
    uses: ['client/wire', 'client/wallets', 'client/checksum', 'client/vault', 'protocol'],
    packages: /^$/
  },

  // Users of the package by its name. They show that the public API suffices.
  ...SHARED.map((folder) => ({
    name: folder,
    files: new RegExp(`^${folder}/`),
    uses: SHARED.slice(0, SHARED.indexOf(folder)),
    packages: ANY
  })),
  // Runs in a browser, and is bundled with the client.
  { name: 'servers/page', files: /^servers\/page\//, uses: [], packages: ANY },
  // Commands of operators know the environment and the protocol of servers, and import no server.
  ...['auth', 'relay', 'vault', 'tools'].map((name) => ({
    name: `servers/${name}`,
    files: new RegExp(`^servers/${name}/`),
    uses: SHARED,
    packages: ANY
  })),
  {
    name: 'servers/cli',
    files: /^servers\/cli\.ts$/,
    uses: [...SHARED, 'servers/auth', 'servers/relay', 'servers/vault', 'servers/tools'],
    packages: ANY
  },
  { name: 'servers/bin', files: /^servers\/bin\.ts$/, uses: ['servers/cli'], packages: /^node:fs$/ },
  { name: 'examples', files: /^examples\//, uses: [], packages: ANY }
]

const root = fileURLToPath(new URL('..', import.meta.url))

/** Returns the faults of made-up files, given as path and text. */
function listFaults(sources: Readonly<Record<string, string>>): string[] {
  const imports = Object.entries(sources).flatMap(([file, text]) => parseImports(file, text))
  return findLayerFaults(LAYERS, Object.keys(sources), imports)
}

describe('the layers', () => {
  it('are respected by every file in src, servers and examples', () => {
    const files = listSourceFiles(root, ['src', 'servers', 'examples'])
    expect(files).toContain('src/index.ts')
    expect(
      findLayerFaults(
        LAYERS,
        files,
        files.flatMap((file) => readImports(root, file))
      )
    ).toEqual([])
  })

  it('keep src from importing library or client by name, which would hide a cycle', () => {
    const files = listSourceFiles(root, ['src'])
    const own = files.flatMap((file) => readImports(root, file)).filter(({ to }) => OWN_NAME.test(to))
    expect(own).toEqual([])
  })
})

describe('findLayerFaults', () => {
  it('accepts imports from layers higher in the table', () =>
    expect(
      listFaults({
        'src/errors.ts': '',
        'src/protocol/did.ts': "import { DidAuthError } from '../errors.js'\nimport { Buffer } from 'node:buffer'",
        'src/protocol/jwt.ts': "export * from './did.js'",
        'src/http/routes.ts': "import { parseDid } from '../protocol/did.js'",
        'src/express/express-routes.ts': "import type { Express } from 'express'\nimport '../http/routes.js'",
        'src/setup-did-auth.ts': "import './express/express-routes.js'",
        'src/adapters/memory-sessions.ts': '',
        'src/testing/wallet.ts': "import '../adapters/memory-sessions.js'",
        'servers/http/listen.ts': "import express from 'express'",
        'servers/auth/app.ts':
          "import { setupDidAuth } from 'express-did-auth'\nimport { serve } from '../http/listen.js'"
      })
    ).toEqual([]))

  const upward = 'src/flows/log-in.ts (flows) imports src/http/routes.ts (http)'
  it.each([
    ['an upward import of a value', 'src/flows/log-in.ts', "import { routes } from '../http/routes.js'", upward],
    ['of a type', 'src/flows/log-in.ts', "import type { Routes } from '../http/routes.js'", upward],
    ['of a type in place', 'src/flows/log-in.ts', "export type R = import('../http/routes.js').Routes", upward],
    ['by a re-export', 'src/flows/log-in.ts', "export * from '../http/routes.js'", upward],
    ['at run time', 'src/flows/log-in.ts', "export const r = () => import('../http/routes.js')", upward],
    ['express in an adapter', 'src/adapters/system.ts', "import type { X } from 'express'", 'the package express'],
    ['its parts too', 'src/adapters/system.ts', "import 'express/lib/router'", 'the package express/lib/router'],
    [
      'Express at run time in setup',
      'src/setup-did-auth.ts',
      "import { Router } from 'express'",
      'the package express'
    ],
    ['a package in protocol', 'src/protocol/did.ts', "import 'node:crypto'", 'the package node:crypto'],
    ['its own package', 'src/protocol/did.ts', "import 'express-did-auth'", 'the package express-did-auth'],
    ['an adapter named in a flow', 'src/flows/log-in.ts', "import '../adapters/memory-sessions.js'", '(adapters)'],
    [
      'in an adapter of a framework',
      'src/fetch/create-did-auth.ts',
      "import '../adapters/memory-sessions.js'",
      '(adapters)'
    ],
    ['in a store', 'src/stores/sqlite/index.ts', "import '../../adapters/memory-sessions.js'", '(adapters)'],
    ['a later shared folder', 'servers/http/listen.ts', "import '../process/run-servers.js'", '(servers/process)'],
    ['another server', 'servers/relay/app.ts', "import { app } from '../auth/app.js'", '(servers/auth)'],
    ['a path into src in a server', 'servers/auth/app.ts', "import '../../src/errors.js'", '(errors)'],
    ['in an example', 'examples/demo.ts', "import '../src/index.js'", '(index)'],
    ['what is in no layer', 'src/errors.ts', "import '../test/support/clock.js'", 'outside the layers']
  ])('finds %s: %s', (_what, file, text, fault) => {
    const others = [
      'src/errors.ts',
      'src/index.ts',
      'src/http/routes.ts',
      'src/adapters/memory-sessions.ts',
      'servers/process/run-servers.ts',
      'servers/auth/app.ts'
    ]
    const faults = listFaults({ ...Object.fromEntries(others.map((other) => [other, ''])), [file]: text })
    expect(faults).toEqual([expect.stringContaining(fault)])
  })

  it('finds a cycle within a layer, and a file outside all layers', () => {
    expect(
      listFaults({
        'src/protocol/jwt.ts': "import './did.js'",
        'src/protocol/did.ts': "import type { Jwt } from './jwt.js'"
      })
    ).toEqual(['a cycle: src/protocol/jwt.ts → src/protocol/did.ts → src/protocol/jwt.ts'])
    expect(listFaults({ 'src/utils.ts': '', 'servers/misc.ts': '' })).toEqual([
      'src/utils.ts is in no layer',
      'servers/misc.ts is in no layer'
    ])
  })
})
