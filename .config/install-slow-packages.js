/**
 * Installs test/slow/package.json and test/slow/modal/package.json, unless their lock files are installed already. Most
 * of it is an IPFS node: `npm ci` would take twice as long with it.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

for (const path of ['../test/slow/', '../test/slow/modal/']) {
  const folder = fileURLToPath(new URL(path, import.meta.url))
  const lockFile = `${folder}package-lock.json`
  /** The lock file that was installed last. npm's own copy leaves out what this platform does not need. */
  const installed = `${folder}node_modules/.installed-lock.json`

  if (!existsSync(installed) || readFileSync(installed, 'utf8') !== readFileSync(lockFile, 'utf8')) {
    const args = ['ci', '--prefix', folder, '--no-audit', '--no-fund', '--loglevel=error']
    const { status } = spawnSync('npm', args, { cwd: folder, stdio: 'inherit', shell: process.platform === 'win32' })
    if (status === 0) copyFileSync(lockFile, installed)
    process.exitCode ||= status ?? 1
  }
}
