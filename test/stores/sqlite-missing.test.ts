import { describe, expect, it, jest } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import { pathToFileURL, fileURLToPath } from 'node:url'
import { warnOfAborts } from '../../src/adapters/sqlite-database.js'

const entry = pathToFileURL(fileURLToPath(new URL('../../src/stores/sqlite.ts', import.meta.url))).href

/** Makes `require('better-sqlite3')` fail with an error code, as where it is not installed or was not compiled. */
const without = (code: string): string =>
  `data:text/javascript,${encodeURIComponent(`
  import Module from 'node:module'
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
  const args = ['--import', 'tsx', '--import', without(code), '--input-type=module', '--eval', script]
  return spawnSync(process.execPath, args, { encoding: 'utf8' }).stdout.trim()
}

describe('express-did-auth/stores/sqlite without better-sqlite3', () => {
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

// Cause: node_object_wrap.h of Node 24 asks for an environment that there is none of during garbage collection.
describe('warnOfAborts', () => {
  it.each([
    ['12.11.1', '24.19.0', 1],
    ['11.10.0', '26.0.0', 1],
    ['13.0.0', '24.19.0', 0],
    ['12.11.1', '22.23.2', 0],
    ['12.11.1', '20.20.2', 0]
  ])('with better-sqlite3 %s on Node %s gives %i warnings', (packageVersion, nodeVersion, count) => {
    const emitted = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    warnOfAborts(packageVersion, nodeVersion)
    expect(emitted).toHaveBeenCalledTimes(count)
    emitted.mockRestore()
  })
})
