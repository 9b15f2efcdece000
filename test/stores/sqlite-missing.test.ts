import { describe, expect, it } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import { pathToFileURL } from 'node:url'
import { nodeOptions, scriptFile } from '../support/run-script.js'

const entry = pathToFileURL(scriptFile('src/stores/sqlite/index.ts')).href

/** Hides Node's own SQLite, and makes `require('better-sqlite3')` fail as where it is not installed or was not compiled. */
const without = (code: string): string =>
  `data:text/javascript,${encodeURIComponent(`
  import Module from 'node:module'
  const builtin = process.getBuiltinModule
  process.getBuiltinModule = (name) => (name === 'node:sqlite' ? undefined : builtin(name))
  const load = Module._load
  Module._load = (name, ...rest) => {
    if (name === 'better-sqlite3') throw Object.assign(new Error('no such thing'), { code: '${code}' })
    return load(name, ...rest)
  }`)}`

/** The message of what `sqliteStore` throws in a process of its own. */
function messageWithout(code: string): string {
  const script = `
    const { sqliteStore } = await import('${entry}')
    try { sqliteStore('never-made.db') } catch (error) { console.log(error.message) }`
  const args = [...nodeOptions, '--import', without(code), '--input-type=module', '--eval', script]
  return spawnSync(process.execPath, args, { encoding: 'utf8' }).stdout.trim()
}

describe('express-did-auth/stores/sqlite without any SQLite', () => {
  it('can be imported, and names the package and the command when it is called', () => {
    expect(messageWithout('MODULE_NOT_FOUND')).toBe(
      'express-did-auth/stores/sqlite needs the package better-sqlite3: npm install better-sqlite3'
    )
  })

  it('names another command where the package is there and cannot be loaded', () => {
    expect(messageWithout('ERR_DLOPEN_FAILED')).toBe(
      'express-did-auth/stores/sqlite cannot load the package better-sqlite3: npm rebuild better-sqlite3'
    )
  })
})
