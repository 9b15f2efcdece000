import { describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'

interface LockedPackage {
  readonly version?: string
  readonly resolved?: string
  readonly integrity?: string
  readonly link?: boolean
  readonly hasInstallScript?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

function readLocked(file: string): [string, LockedPackage][] {
  const lockFile = JSON.parse(readFileSync(new URL(`../${file}`, import.meta.url), 'utf8')) as {
    readonly packages: Readonly<Record<string, LockedPackage>>
  }
  return Object.entries(lockFile.packages)
}

describe.each([
  'package-lock.json',
  'test/slow/package-lock.json',
  'test/slow/modal/package-lock.json',
  '.site/package-lock.json'
])('%s', (file) => {
  const locked = readLocked(file)
  const { workspaces = [], allowScripts = {} } = JSON.parse(
    readFileSync(new URL(`../${file.replace('-lock', '')}`, import.meta.url), 'utf8')
  ) as { workspaces?: string[]; allowScripts?: Record<string, boolean> }

  it('contains no download URL, which may belong to a private mirror', () => {
    const named = locked.filter(([, { resolved }]) => resolved !== undefined)
    // The packages of this repository are folders.
    expect(named.filter(([, { link }]) => link !== true)).toEqual([])
    expect(named.map(([path, { resolved }]) => [path, resolved])).toEqual(
      file === 'package-lock.json'
        ? [
            ['node_modules/express-did-auth', ''],
            ['node_modules/express-did-auth-build', '.config'],
            ['node_modules/express-did-auth-client', 'src/client'],
            ['node_modules/express-did-auth-servers', 'servers']
          ]
        : []
    )
  })

  // The registry may send any content for a package without a hash. npm writes no hash for a platform that was not
  // offered.
  it('contains the SHA-512 of each package except the folders of this repository', () => {
    const without = locked.filter(([, { integrity = '' }]) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity))
    const links = ['', '-build', '-client', '-servers'].map((ending) => `node_modules/express-did-auth${ending}`)
    const own = ['', '.config', ...links, 'servers', 'src/client']
    expect(without.map(([path]) => path)).toEqual(file === 'package-lock.json' ? own : [''])
  })

  // npm warns at each installation about undecided scripts, and about a project that is its own workspace.
  it('allows or forbids each install script, in the one place that npm reads', () => {
    const scripted = locked.filter(([, { hasInstallScript }]) => hasInstallScript === true)
    const names = scripted.map(([path]) => path.split('node_modules/').at(-1)!)
    expect(names.filter((name) => allowScripts[name] === undefined)).toEqual([])
    expect(workspaces).not.toContain('.')
  })

  // npm omits packages that the current registry does not offer, and then refuses its own lock file at `npm ci`.
  it('lists the packages of every platform', () => {
    const names = new Set(locked.map(([path]) => path))
    const missing = locked.flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter(
        (name) => !names.has(`node_modules/${name}`) && !names.has(`${path}/node_modules/${name}`)
      )
    )
    expect(missing).toEqual([])
  })
})
