import { describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'

interface LockedPackage {
  readonly version?: string
  readonly resolved?: string
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const lockFile = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8')) as {
  readonly packages: Readonly<Record<string, LockedPackage>>
}
const locked = Object.entries(lockFile.packages)

describe('package-lock.json', () => {
  it('carries no download address, which may be that of a private mirror', () => {
    expect(locked.filter(([, { resolved }]) => resolved !== undefined)).toEqual([])
  })

  // npm leaves out what the registry at hand does not offer, and then refuses its own lock file at `npm ci`.
  it('names the packages of every platform', () => {
    const names = new Set(locked.map(([path]) => path))
    const missing = locked.flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter(
        (name) => !names.has(`node_modules/${name}`) && !names.has(`${path}/node_modules/${name}`)
      )
    )
    expect(missing).toEqual([])
  })
})
