import { describe, expect, it } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import { nameOptions, nodeOptions, scriptFile } from '../../support/servers/run-script.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'

const script = [
  process.execPath,
  ...nodeOptions,
  ...nameOptions(),
  scriptFile('test/support/servers/full-disk-child.ts')
]

/** Runs the script on a separate small disk or, if mounting is not allowed, with a limited file size. */
function runFull(folder: string): { disk: 'full' | 'limited'; report: unknown } {
  const command = script.map((argument) => `'${argument}'`).join(' ')
  const mount = `mount -t tmpfs -o size=24m tmpfs '${folder}' && exec ${command} '${folder}/vault'`
  const onDisk = spawnSync('unshare', ['-Urm', 'sh', '-c', mount], { encoding: 'utf8' })
  if (onDisk.status === 0) return { disk: 'full', report: JSON.parse(onDisk.stdout) }
  const limit = `ulimit -f 1500 && exec ${command} '${folder}/vault'`
  const { stdout, stderr } = spawnSync('sh', ['-c', limit], { encoding: 'utf8' })
  return { disk: 'limited', report: stdout === '' ? stderr : JSON.parse(stdout) }
}

describe('a content store on a full disk', () =>
  it('refuses writes with 507, still reads and removes, and works again once there is space', () => {
    const { path, remove } = temporaryFolder()
    try {
      const { disk, report } = runFull(path)
      const code = disk === 'full' ? 'ERR_STORAGE_FULL' : 'ERR_STORAGE'
      const outcome = { count: expect.any(Number), code }
      const { removals, ...others } = report as { removals: string[]; tiny: { count: number } }
      expect(others).toMatchObject({
        small: outcome,
        tiny: outcome,
        read: others.tiny.count,
        all: 'done',
        collected: 'done'
      })
      expect(new Set(removals)).toEqual(new Set(['done']))
      expect(others).toMatchObject({ after: ['done', 'done'] })
    } finally {
      remove()
    }
  }))
