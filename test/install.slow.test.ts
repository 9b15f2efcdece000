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
  os?: string[]
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

const library = { version: '1.0.0', integrity: 'sha512-a' }
const tool = { version: '2.0.0', integrity: 'sha512-b', dev: true }
const none = { version: '1.0.0', optional: true }
const locked: Record<string, Locked> = {
  '': { version: '0.1.0', optionalDependencies: { native: '1.0.0' } },
  'node_modules/library': library,
  'node_modules/tool': tool,
  'node_modules/native': { ...none, dependencies: { 'of-another-platform': '1.0.0' } },
  'node_modules/of-another-platform': { ...none, os: ['none'], dependencies: { 'needed-there': '1.0.0' } },
  'node_modules/needed-there': none
}
const complete = { 'node_modules/library': library, 'node_modules/tool': tool }

describe('.config/uses-ipfs.js', () => {
  const { path: folder, remove } = temporaryFolder()
  afterAll(remove)

  it.each([
    ['nothing', {}, '', false],
    ['an empty variable', { IPFS_API_URL: '' }, '', false],
    ['a variable', { IPFS_API_URL: 'http://127.0.0.1:5001' }, '', true],
    ['a variable of one server', { VAULT_IPFS_API_URL: 'http://127.0.0.1:5001' }, '', true],
    ['a file with the URL', { IPFS_API_URL_FILE: '/run/secrets/ipfs' }, '', true],
    ['.env', {}, 'PAGE=false\nIPFS_API_URL=http://127.0.0.1:5001\n', true],
    ['.env, and an empty variable', { IPFS_API_URL: '' }, 'IPFS_API_URL=http://127.0.0.1:5001\n', false],
    ['a comment of .env', {}, '# IPFS_API_URL=http://127.0.0.1:5001\n', false]
  ])('finds out from %s whether a server uses an IPFS node', async (_what, environment, text, isUsed) => {
    const file = join(folder, '.env')
    writeFileSync(file, text)
    const { usesIpfs } = (await import(join(root, '.config/uses-ipfs.js'))) as {
      usesIpfs: (environment: object, file: string) => boolean
    }
    expect([usesIpfs(environment, file), usesIpfs({}, join(folder, 'missing'))]).toEqual([isUsed, false])
  })
})

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
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', allowScripts: { native: true } }))
    write(join(folder, 'package-lock.json'), locked)
    write(join(folder, 'complete.json'), complete)
    const lean = "import { install } from './.config/install.js'; await install('.', { withTests: false })"
    writeFileSync(join(folder, 'lean.mjs'), lean)
    write(join(folder, 'lean.json'), { 'node_modules/library': library })
    const npm = `#!/bin/sh
echo "$*" >> calls
[ "$1" = rebuild ] && exit "\${REBUILT:-0}"
$THEN
record=complete
for name in library native tool; do
  [ "$name $2" = "tool --omit=dev" ] && record=lean && continue
  mkdir -p node_modules/$name && echo '{}' > node_modules/$name/package.json
done
cp $record.json node_modules/.package-lock.json
`
    writeFileSync(join(folder, 'bin/npm'), npm)
    chmodSync(join(folder, 'bin/npm'), 0o755)
  })

  function start(then = '', env: Record<string, string> = {}, args: readonly string[] = ['.config/install.js']) {
    const PATH = [join(folder, 'bin'), process.env.PATH].join(delimiter)
    const child = spawn(process.execPath, args, { cwd: folder, env: { PATH, THEN: then, ...env } })
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
    const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, said }))
    return { child, ended }
  }
  /** Installs what builds and runs, as `npm start` does. */
  const startLean = () => start('', {}, ['lean.mjs'])
  /** Lists the commands of npm's calls, with their first option. */
  const listCalls = (): string[] =>
    existsSync(calls)
      ? readFileSync(calls, 'utf8')
          .trim()
          .split('\n')
          .map((line) => line.replace(/ --(?:ignore-scripts|no-progress) .*/, ''))
      : []
  const countCalls = (): number => listCalls().filter((call) => !call.startsWith('rebuild')).length

  it('installs once, and prints the counted packages of this platform and the measured time', async () => {
    const { code, said } = await start().ended
    expect(code).toBe(0)
    expect(said).toMatch(
      /^Installing 3 packages\.\nRunning the install script of native\.\nInstalled 3 packages in \d+ s\.\n$/
    )
    expect(await start().ended).toEqual({ code: 0, said: '' })
    expect(listCalls()).toEqual(['ci --include=dev', 'rebuild native'])
  })

  it('lets npm run no install script, except those of allowed packages without a binary for this platform', async () => {
    await start(`mkdir -p node_modules/native/prebuilds/${process.platform}-${process.arch}`).ended
    expect(readFileSync(calls, 'utf8')).toMatch(/^ci --include=dev --ignore-scripts .*\n$/)
  })

  it('reports an install script that failed, and does not run it again', async () => {
    const { code, said } = await start('', { REBUILT: '1' }).ended
    expect([code, said]).toEqual([0, expect.stringContaining('Run `npm rebuild native` to try again.')])
    expect(await start().ended).toEqual({ code: 0, said: '' })
  })

  it('installs without development packages for a start, then adds them for tests, and keeps them', async () => {
    expect((await startLean().ended).said).toMatch(/^Installing 2 packages\.\n/)
    expect(await startLean().ended).toEqual({ code: 0, said: '' })
    expect((await start().ended).said).toMatch(/^Installing 1 package\.\n/)
    expect(await startLean().ended).toEqual({ code: 0, said: '' })
    // Another version of a package: everything is installed again, with what was there.
    write(record, { ...complete, 'node_modules/library': { ...library, version: '0.9.0' } })
    utimesSync(record, 1, 1)
    await startLean().ended
    expect(listCalls()).toEqual([
      'ci --omit=dev',
      'rebuild native',
      'install --no-save --include=dev',
      'ci --include=dev',
      'rebuild native'
    ])
  })

  it.each([
    ['leaves alone what somebody has installed', complete, 0],
    ['adds what is missing', { 'node_modules/library': library }, 1],
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
