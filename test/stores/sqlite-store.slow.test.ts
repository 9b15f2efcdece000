import { describe, expect, it } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { service, createSession } from '../../src/testing/store-case.js'
import { nodeOptions, scriptFile } from '../support/servers/run-script.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { scaled } from '../support/fixtures/time-factor.js'

const entry = pathToFileURL(scriptFile('src/stores/sqlite/index.ts')).href

/** Runs a script with `store` until it exits. */
function run(file: string, script: string): { status: number | null; stdout: string } {
  const text = `
    const { sqliteStore } = await import('${entry}')
    const store = sqliteStore('${file}')
    ${script}`
  writeFileSync(`${file}.mjs`, text)
  const args = [...nodeOptions, `${file}.mjs`]
  return spawnSync(process.execPath, args, { encoding: 'utf8', timeout: scaled(120_000) })
}

describe('a process with an open SQLite store', () => {
  it('exits when it has nothing else to do', () => {
    const { path, remove } = temporaryFolder()
    expect(run(`${path}/a.db`, "await store.ping(); console.log('done')")).toMatchObject({
      status: 0,
      stdout: 'done\n'
    })
    expect(run(`${path}/b.db`, "console.log('unused')")).toMatchObject({ status: 0, stdout: 'unused\n' })
    remove()
  })

  it('exits only after its calls are completed', async () => {
    const { path, remove } = temporaryFolder()
    const session = JSON.stringify(createSession('a'))
    const { stdout } = run(`${path}/a.db`, `store.createSession(${session}).then((n) => console.log('answered', n))`)
    expect(stdout).toBe('answered 0\n')
    const store = sqliteStore(`${path}/a.db`)
    expect((await store.findSession(service, 'session-a'))?.state).toBe('active')
    await store.close()
    remove()
  })
})
