import { expect, it } from '@jest/globals'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { runReconcile } from '../../../servers/tools/reconcile.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'
import { filesIn } from '../../support/fixtures/store-folder.js'
import { runCommand } from '../../support/servers/command-line.js'
import { runCli, spawnCli } from '../../support/servers/server-process.js'
import { fillVault, findVaultFaults } from '../../support/servers/vault-app.js'

const POINTS = 20
const OBJECTS = 150

const folder = folderOfEachTest()
const at = (name: string): string => join(folder.path, name)

/** Restores to a folder, and kills the restore when the folder has `count` files. @returns whether it was killed */
async function killAt(target: string, count: number): Promise<boolean> {
  const { child, ended, output } = spawnCli(['restore', at('backup')], { DATA_DIR: target })
  while (child.exitCode === null && filesIn(target).length < count) await pause(0)
  child.kill('SIGKILL')
  const { code } = await ended
  if (code !== null && code !== 0) throw new Error(`the restore failed: ${output()}`)
  return code === null
}

it('a restore that is killed leaves nothing, a folder that is refused, or all data', async () => {
  const { store } = await openContentStore({ folder: at('data/vault'), database: 'vault.db' })
  const { did } = createNumberedWallet(1)
  const entries = Array.from({ length: OBJECTS }, (_, number): [string, string] => [
    'notes',
    `${number} `.repeat(20_000)
  ])
  await fillVault({ store }, did, entries)
  await store.close()
  expect((await runCli(['backup', at('backup')], { DATA_DIR: at('data') })).code).toBe(0)
  const all = filesIn(at('backup')).length - 1
  const outcomes: Record<string, number> = { nothing: 0, refused: 0, whole: 0 }
  for (let point = 0; point < POINTS; point += 1) {
    const target = at(`restored-${point}`)
    mkdirSync(target)
    // The last points are after the last file, while databases are checked and the marker is removed.
    await killAt(target, Math.round((point / (POINTS - 3)) * all))
    const reconciled = runCommand(runReconcile, [], { DATA_DIR: target })
    if (existsSync(join(target, 'restore-unfinished'))) {
      await expect(reconciled).rejects.toThrow('did not finish; delete everything in that folder')
      outcomes.refused! += 1
    } else if (readdirSync(target).length === 0) {
      await expect(reconciled).rejects.toThrow('There is no vault')
      outcomes.nothing! += 1
    } else {
      const { code, lines } = await reconciled
      expect([code, lines.join()]).toEqual([0, expect.stringContaining(`${OBJECTS} contents in use, all undamaged`)])
      expect(await findVaultFaults({ DATA_DIR: target })).toEqual([])
      outcomes.whole! += 1
    }
  }
  expect(outcomes.refused).toBeGreaterThan(POINTS / 2)
})
