import { afterAll, beforeEach, describe, expect, it } from '@jest/globals'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { root } from './support/engines/packed-package.js'
import { temporaryFolder } from './support/fixtures/store-folder.js'
import { until } from './support/fixtures/until.js'

interface Locked {
  version: string
  integrity?: string
  dev?: boolean
  optional?: boolean
}

const library = { version: '1.0.0', integrity: 'sha512-a' }
const tool = { version: '2.0.0', integrity: 'sha512-b', dev: true }
const locked: Record<string, Locked> = {
  '': { version: '0.1.0' },
  'node_modules/library': library,
  'node_modules/tool': tool,
  'node_modules/of-another-platform': { version: '1.0.0', optional: true }
}
const complete = { 'node_modules/library': library, 'node_modules/tool': tool }

describe('.config/install.js', () => {
  const { path: folder, remove } = temporaryFolder()
  const record = join(folder, 'node_modules/.package-lock.json')
  const calls = join(folder, 'calls')
  afterAll(remove)

  const write = (file: string, packages: object): void => writeFileSync(file, JSON.stringify({ packages }))
  /** Creates a checkout whose npm records its calls, installs everything, and then waits or fails as the test says. */
  beforeEach(() => {
    rmSync(folder, { recursive: true, force: true })
    for (const name of ['.config', 'bin', 'node_modules']) mkdirSync(join(folder, name), { recursive: true })
    cpSync(join(root, '.config/install.js'), join(folder, '.config/install.js'))
    write(join(folder, 'package-lock.json'), locked)
    write(join(folder, 'complete.json'), complete)
    const npm = `#!/bin/sh\necho "$*" >> calls\n$THEN\ncp complete.json node_modules/.package-lock.json\n`
    writeFileSync(join(folder, 'bin/npm'), npm)
    chmodSync(join(folder, 'bin/npm'), 0o755)
  })

  function start(then = '') {
    const PATH = [join(folder, 'bin'), process.env.PATH].join(delimiter)
    const child = spawn(process.execPath, ['.config/install.js'], { cwd: folder, env: { PATH, THEN: then } })
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
    const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, said }))
    return { child, ended }
  }
  const countCalls = (): number => (existsSync(calls) ? readFileSync(calls, 'utf8').split('\n').length - 1 : 0)

  it('installs once, with the tools, and prints the duration', async () => {
    expect(await start().ended).toEqual({ code: 0, said: 'Installing packages. This takes about a minute.\n' })
    expect(await start().ended).toEqual({ code: 0, said: '' })
    expect(readFileSync(calls, 'utf8')).toMatch(/^ci --include=dev .*\n$/)
  })

  it.each([
    ['leaves alone what somebody has installed', complete, 0],
    ['installs what is missing', { 'node_modules/library': library }, 1],
    ['installs another version', { ...complete, 'node_modules/library': { ...library, version: '0.9.0' } }, 1],
    ['installs a package of another content', { ...complete, 'node_modules/tool': { ...tool, integrity: 'x' } }, 1]
  ])('%s, according to the record of npm', async (_what, packages, count) => {
    write(record, packages)
    // The lock file is newer, as after a pull.
    utimesSync(record, 1, 1)
    expect((await start().ended).code).toBe(0)
    expect(countCalls()).toBe(count)
  })

  it('keeps another version that was installed by hand after the lock file changed', async () => {
    utimesSync(join(folder, 'package-lock.json'), 1, 1)
    write(record, { ...complete, 'node_modules/library': { ...library, version: '1.1.0' } })
    await start().ended
    expect(countCalls()).toBe(0)
  })

  it('names the command for a retry if npm fails', async () => {
    const { code, said } = await start('exit 3').ended
    expect([code, said]).toEqual([
      1,
      expect.stringContaining('could not be installed. The reason is above. Run `npm ci`')
    ])
  })

  it('passes a signal on to npm, exits with it, and installs on the next run', async () => {
    const { child, ended } = start('exec sleep 600')
    await until(() => countCalls() === 1)
    child.kill('SIGTERM')
    expect((await ended).code).toBe(143)
    await start().ended
    expect(countCalls()).toBe(2)
  })
})
