import { describe, expect, it } from '@jest/globals'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { runCopy } from '../../../servers/tools/copy.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'
import { runCommand } from '../../support/servers/command-line.js'

const folder = folderOfEachTest()
/** URL of a database that the command does not reach. */
const unavailable = 'postgres://nobody@127.0.0.1:1/none'

describe('the command copy', () => {
  it('creates nothing in an empty folder, and requires a database', async () => {
    const from = join(folder.path, 'nowhere')
    await expect(runCommand(runCopy, ['--from', from], { DATABASE_URL: unavailable })).rejects.toThrow(
      `There is nothing to copy: ${from} (DATA_DIR)`
    )
    expect(existsSync(from)).toBe(false)
    const withoutDatabase = runCommand(runCopy, [], { DATA_DIR: from })
    await expect(withoutDatabase).rejects.toThrow('No database is configured. Set DATABASE_URL.')
  })
})
