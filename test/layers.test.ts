import { describe, expect, it } from '@jest/globals'
import { fileURLToPath } from 'node:url'
import { findLayerFaults, type Layer } from './support/find-layer-faults.js'
import { listSourceFiles, parseImports, readImports } from './support/read-imports.js'

const OWN_NAME = /^express-did-auth(\/|$)/
const ANY = /^/

const ADAPTERS = ['pure-adapters', 'adapters']

/** What all servers share, each folder using only those before it. */
const SHARED = 'config observability http openapi storage ipfs process'.split(' ').map((folder) => `servers/${folder}`)

const sharedBefore = (folder: string): readonly string[] => SHARED.slice(0, SHARED.indexOf(`servers/${folder}`))

/**
 * Who may import whom. Each layer of the library uses only what stands above it; a layer that needs more is a sign that
 * something lives in the wrong place, and if the table itself is wrong, change it in the commit that moves the files.
 */
const LAYERS: readonly Layer[] = [
  { name: 'errors', files: /^src\/(?:errors|error-statuses)\.ts$/, uses: [], packages: /^$/ },
  { name: 'protocol', files: /^src\/protocol\//, uses: ['errors'], packages: /^node:buffer$/ },
  { name: 'ports', files: /^src\/(?:application-port|ports|store-port)\.ts$/, uses: ['errors', 'protocol'] },
  { name: 'config', files: /^src\/config\//, uses: ['errors', 'protocol', 'ports'] },
  // What a guard adds to a request: types alone.
  { name: 'express-types', files: /^src\/express-types\.ts$/, uses: ['protocol'], packages: /^$/ },
  { name: 'flows', files: /^src\/flows\//, uses: ['errors', 'protocol', 'ports', 'config'] },
  // Express is an optional peer: its types alone are imported, so that the package loads without it.
  {
    name: 'http',
    files: /^src\/http\//,
    uses: ['errors', 'protocol', 'ports', 'config', 'flows'],
    packages: /^(?:node:\w+|cookie-parser)$/,
    typePackages: /^express$/
  },
  // The adapters that run anywhere: no module of Node, nothing to load.
  {
    name: 'pure-adapters',
    files: /^src\/adapters\/(?:curve-pure|did-resolution|issuer-key|recent-entries)\.ts$/,
    uses: ['errors', 'protocol'],
    packages: /^@noble\//
  },
  { name: 'fair-queue', files: /^src\/adapters\/fair-queue\.ts$/, uses: ['ports'], packages: /^$/ },
  { name: 'adapters', files: /^src\/adapters\//, uses: ['errors', 'protocol', 'ports', 'pure-adapters', 'fair-queue'] },
  {
    name: 'setup',
    files: /^src\/(?:load-parts|setup-did-auth)\.ts$/,
    uses: ['errors', 'protocol', 'ports', 'config', 'flows', 'express-types', 'http', ...ADAPTERS, 'stores'],
    typePackages: /^express$/
  },
  {
    name: 'index',
    files: /^src\/index\.ts$/,
    // The signer and the memory store are public; like the other doors it may name adapters.
    uses: ['errors', 'protocol', 'ports', 'config', 'flows', 'express-types', 'http', 'setup', ...ADAPTERS, 'stores'],
    typePackages: /^express$/
  },
  // Imports the servers by name at run time, where they are installed.
  { name: 'bin', files: /^src\/bin\.ts$/, uses: [], packages: /^node:fs$/ },
  // Each store is a door of its own as well. A package that only a store uses is loaded by name at run time.
  { name: 'stores', files: /^src\/stores\//, uses: ['errors', 'protocol', 'ports', 'fair-queue'], packages: /^node:/ },
  // The other doors. Besides setup, they alone name adapters.
  { name: 'testing', files: /^src\/testing\//, uses: ['errors', 'protocol', 'ports', ...ADAPTERS, 'stores'] },
  // Express is what its glue is for, and is named by its structure alone.
  {
    name: 'verify',
    files: /^src\/verify\//,
    uses: ['errors', 'protocol', 'express-types', 'pure-adapters'],
    packages: /^$/
  },
  // The one package that a part of the client uses: optional, and only where QR codes are wanted.
  { name: 'client/qr', files: /^src\/client\/qr\//, uses: ['client'], packages: /^uqr$/ },
  { name: 'client', files: /^src\/client\//, uses: ['errors', 'protocol'] },

  // Users of the package, by its name. They show that what is public is enough.
  ...['config', 'observability', 'http', 'openapi', 'storage', 'ipfs', 'process'].map((folder) => ({
    name: `servers/${folder}`,
    files: new RegExp(`^servers/${folder}/`),
    uses: sharedBefore(folder),
    packages: ANY
  })),
  // Runs in a browser, and is bundled from what the library has for clients.
  { name: 'servers/auth/page', files: /^servers\/auth\/page\//, uses: [], packages: ANY },
  { name: 'servers/auth', files: /^servers\/auth\//, uses: SHARED, packages: ANY },
  { name: 'servers/relay', files: /^servers\/relay\//, uses: SHARED, packages: ANY },
  { name: 'servers/vault', files: /^servers\/vault\//, uses: SHARED, packages: ANY },
  // Commands beside the servers: they know the environment and the wire, and no server from inside.
  { name: 'servers/commands', files: /^servers\/commands\//, uses: SHARED, packages: ANY },
  {
    name: 'servers/cli',
    files: /^servers\/cli\.ts$/,
    uses: [...SHARED, 'servers/auth', 'servers/relay', 'servers/vault', 'servers/commands'],
    packages: ANY
  },
  { name: 'servers/bin', files: /^servers\/bin\.ts$/, uses: ['servers/cli'], packages: /^node:fs$/ },
  { name: 'examples', files: /^examples\//, uses: [], packages: ANY }
]

const root = fileURLToPath(new URL('..', import.meta.url))

/** The faults of made-up files, given as path and text. */
function faultsOf(sources: Readonly<Record<string, string>>): string[] {
  const imports = Object.entries(sources).flatMap(([file, text]) => parseImports(file, text))
  return findLayerFaults(LAYERS, Object.keys(sources), imports)
}

describe('the layers', () => {
  it('hold for every file in src, servers and examples', () => {
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

  it('keep src from importing the package by its own name, which would be a hidden cycle', () => {
    const files = listSourceFiles(root, ['src'])
    const own = files.flatMap((file) => readImports(root, file)).filter(({ to }) => OWN_NAME.test(to))
    expect(own).toEqual([])
  })
})

describe('findLayerFaults', () => {
  it('accepts imports of layers further up the table', () => {
    expect(
      faultsOf({
        'src/errors.ts': '',
        'src/protocol/did.ts': "import { DidAuthError } from '../errors.js'\nimport { Buffer } from 'node:buffer'",
        'src/protocol/jwt.ts': "export * from './did.js'",
        'src/http/routes.ts': "import type { Express } from 'express'\nimport { parseDid } from '../protocol/did.js'",
        'src/setup-did-auth.ts': "import type { Express } from 'express'\nimport { routes } from './http/routes.js'",
        'servers/http/listen.ts': "import express from 'express'",
        'servers/auth/app.ts':
          "import { setupDidAuth } from 'express-did-auth'\nimport { serve } from '../http/listen.js'"
      })
    ).toEqual([])
  })

  it.each([
    ['a value', "import { routes } from '../http/routes.js'"],
    ['a type', "import type { Routes } from '../http/routes.js'"],
    ['a type in place', "export type Routes = import('../http/routes.js').Routes"],
    ['a re-export', "export * from '../http/routes.js'"],
    ['a dynamic import', "export const routes = () => import('../http/routes.js')"]
  ])('finds an upward import: %s', (_what, text) => {
    expect(faultsOf({ 'src/flows/log-in.ts': text, 'src/http/routes.ts': '' })).toEqual([
      'src/flows/log-in.ts (flows) imports src/http/routes.ts (http)'
    ])
  })

  it('finds a cycle within a layer', () => {
    expect(
      faultsOf({
        'src/protocol/jwt.ts': "import './did.js'",
        'src/protocol/did.ts': "import type { Jwt } from './jwt.js'"
      })
    ).toEqual(['a cycle: src/protocol/jwt.ts → src/protocol/did.ts → src/protocol/jwt.ts'])
  })

  it.each(['express', 'express/lib/router', 'express-serve-static-core'])('finds %s outside http', (name) => {
    expect(faultsOf({ 'src/adapters/system.ts': `import type { X } from '${name}'` })).toEqual([
      `src/adapters/system.ts (adapters) imports the package ${name}`
    ])
  })

  it('finds Express at run time in setup, where only its types may be', () => {
    expect(faultsOf({ 'src/setup-did-auth.ts': "import { Router, type Express } from 'express'" })).toEqual([
      'src/setup-did-auth.ts (setup) imports the package express'
    ])
    expect(faultsOf({ 'src/setup-did-auth.ts': "import { type Router, type Express } from 'express'" })).toEqual([])
  })

  it.each(['ethers', 'node:crypto', 'express-did-auth'])('finds the package %s in protocol', (name) => {
    expect(faultsOf({ 'src/protocol/did.ts': `import '${name}'` })).toEqual([
      `src/protocol/did.ts (protocol) imports the package ${name}`
    ])
  })

  it('finds an adapter named by anything but setup and the doors', () => {
    const adapter = { 'src/adapters/memory-sessions.ts': '' }
    const text = "import '../adapters/memory-sessions.js'"
    expect(faultsOf({ ...adapter, 'src/flows/log-in.ts': text })).toHaveLength(1)
    expect(faultsOf({ ...adapter, 'src/http/routes.ts': text })).toHaveLength(1)
    expect(faultsOf({ ...adapter, 'src/stores/sqlite/index.ts': text })).toHaveLength(1)
    expect(faultsOf({ ...adapter, 'src/testing/wallet.ts': text })).toEqual([])
    expect(faultsOf({ ...adapter, 'src/setup-did-auth.ts': text.replace('../', './') })).toEqual([])
  })

  it('finds a shared folder using one that stands after it', () => {
    const text = "import { runServers } from '../process/run-servers.js'"
    expect(faultsOf({ 'servers/http/listen.ts': text, 'servers/process/run-servers.ts': '' })).toEqual([
      'servers/http/listen.ts (servers/http) imports servers/process/run-servers.ts (servers/process)'
    ])
  })

  it('finds one server importing another', () => {
    expect(
      faultsOf({ 'servers/relay/app.ts': "import { app } from '../auth/app.js'", 'servers/auth/app.ts': '' })
    ).toEqual(['servers/relay/app.ts (servers/relay) imports servers/auth/app.ts (servers/auth)'])
  })

  it.each([
    ['servers/auth/app.ts', '../../src/errors.js'],
    ['servers/http/listen.ts', '../../src/errors.js']
  ])('finds a path into src in %s', (file, path) => {
    expect(faultsOf({ [file]: `import '${path}'`, 'src/errors.ts': '' })).toEqual([
      expect.stringContaining('imports src/errors.ts (errors)')
    ])
  })

  it('finds a path into src in an example', () => {
    expect(faultsOf({ 'examples/demo.ts': "import '../src/index.js'", 'src/index.ts': '' })).toEqual([
      'examples/demo.ts (examples) imports src/index.ts (index)'
    ])
  })

  it('finds a file outside the table', () => {
    expect(faultsOf({ 'src/utils.ts': '' })).toEqual(['src/utils.ts is in no layer'])
    expect(faultsOf({ 'servers/misc.ts': '' })).toEqual(['servers/misc.ts is in no layer'])
  })

  it('finds an import of what is not there, or lies outside the layers', () => {
    expect(faultsOf({ 'src/errors.ts': "import '../test/support/clock.js'" })).toEqual([
      'src/errors.ts imports test/support/clock.ts, which is not there or outside the layers'
    ])
  })
})
