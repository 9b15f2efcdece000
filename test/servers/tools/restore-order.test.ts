import { expect, it, jest } from '@jest/globals'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import * as privateFiles from '../../../servers/config/private-files.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'
import { runCommand } from '../../support/servers/command-line.js'

const folder = folderOfEachTest()
const at = (name: string): string => join(folder.path, name)

/** Each folder that was synced, and the names in `DATA_DIR` at that time. */
const synced: [string, string][] = []
jest.unstable_mockModule('../../../servers/config/private-files.js', () => ({
  ...privateFiles,
  syncFolder: (path: string) => {
    synced.push([relative(at('restored'), path), readdirSync(at('restored')).toSorted().join()])
    privateFiles.syncFolder(path)
  }
}))
const { runBackup } = await import('../../../servers/tools/backup.js')
const { runRestore } = await import('../../../servers/tools/restore.js')

it('a restore syncs DATA_DIR with all names before it removes the marker, and once more after', async () => {
  mkdirSync(at('data/auth'), { recursive: true })
  await sqliteStore(at('data/auth/auth.db')).close()
  writeFileSync(at('data/private-key'), 'secret\n')
  await runCommand(runBackup, [at('backup')], { DATA_DIR: at('data') })
  synced.length = 0
  expect((await runCommand(runRestore, [at('backup')], { DATA_DIR: at('restored') })).code).toBe(0)
  const whole = 'auth,private-key'
  expect(synced).toEqual([
    ['', 'restore-unfinished'],
    ['auth', `${whole},restore-unfinished`],
    ['', `${whole},restore-unfinished`],
    ['', whole]
  ])
})
