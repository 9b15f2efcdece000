import { expect, it } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import { pathToFileURL } from 'node:url'
import { nodeOptions, scriptFile } from '../support/servers/run-script.js'

/** Hides Node's own SQLite, and makes `require` of a package fail as if it were not installed or not compiled. */
const without = (name: string, code: string): string =>
  `data:text/javascript,${encodeURIComponent(`
  import Module from 'node:module'
  const builtin = process.getBuiltinModule
  process.getBuiltinModule = (name) => (name === 'node:sqlite' ? undefined : builtin(name))
  const load = Module._load
  Module._load = (name, ...rest) => {
    if (name === '${name}') throw Object.assign(new Error('no such thing'), { code: '${code}' })
    return load(name, ...rest)
  }`)}`

const PG = "postgresStore('postgres://user@host/app')"
it.each([
  ['sqlite', 'better-sqlite3', 'MODULE_NOT_FOUND', "sqliteStore('no.db')", 'needs', 'npm install better-sqlite3'],
  [
    'sqlite',
    'better-sqlite3',
    'ERR_DLOPEN_FAILED',
    "sqliteStore('no.db')",
    'cannot load',
    'npm rebuild better-sqlite3'
  ],
  ['postgres', 'pg', 'MODULE_NOT_FOUND', PG, 'needs', 'npm install pg'],
  ['redis', 'redis', 'MODULE_NOT_FOUND', "redisQuotas('redis://localhost')", 'needs', 'npm install redis@6']
])(
  'express-did-auth/stores/%s imports without %s (%s), and names the install command when called',
  (store, name, code, call, fault, remedy) => {
    const script = `
    const doors = await import('${pathToFileURL(scriptFile(`src/stores/${store}/index.ts`)).href}')
    try { doors.${call} } catch (error) { console.log(error.message) }`
    const args = [...nodeOptions, '--import', without(name, code), '--input-type=module', '--eval', script]
    const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect(stdout.trim()).toBe(`express-did-auth/stores/${store} ${fault} the package ${name}: ${remedy}`)
  }
)

it.each([
  ["new Error('Could not locate the bindings file. Tried:\\n → a\\n → b')"],
  ["Object.assign(new Error('compiled against another version'), { code: 'ERR_DLOPEN_FAILED' })"]
])('express-did-auth/stores/sqlite says in one line that better-sqlite3 has no native module (%s)', (error) => {
  const hook = `data:text/javascript,${encodeURIComponent(`
  import Module from 'node:module'
  const builtin = process.getBuiltinModule
  process.getBuiltinModule = (name) => (name === 'node:sqlite' ? undefined : builtin(name))
  const load = Module._load
  Module._load = (name, ...rest) => {
    if (name === 'better-sqlite3') return class { constructor() { throw ${error} } }
    return load(name, ...rest)
  }`)}`
  const script = `
    const { sqliteStore } = await import('${pathToFileURL(scriptFile('src/stores/sqlite/index.ts')).href}')
    try { sqliteStore(':memory:') } catch (error) { console.log(error.stack, error.cause) }`
  const args = [...nodeOptions, '--import', hook, '--input-type=module', '--eval', script]
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  const [line, ...stack] = stdout.trim().split('\n')
  const remedy = 'allow its install script, then run npm rebuild better-sqlite3'
  expect(line).toBe(`Error: better-sqlite3 has no native module for this version of Node: ${remedy}`)
  expect(stack.join('\n')).not.toContain('→')
})
