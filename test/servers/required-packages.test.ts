import { describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { assertPackagesInstalled, requiredPackages } from '../../servers/shared/start/required-packages.js'
import { readImports } from '../support/read-imports.js'
import { root } from '../support/packed-package.js'

const { dependencies, devDependencies } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8')) as {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
}
const bareName = (versioned: string): string => versioned.replace(/@\d+$/, '')

/** The packages that a server imports, with all files on the way. */
function packagesOf(server: string): string[] {
  const packages = new Set<string>()
  const files = ['servers/shared/start/run-servers.ts', `servers/${server}/main.ts`]
  // What is found on the way is looked at as well.
  for (const file of files) {
    for (const { to, typeOnly } of readImports(root, file)) {
      if (typeOnly || to.startsWith('node:') || to.startsWith('express-did-auth')) continue
      if (!to.startsWith('servers/')) packages.add(/^(?:@[^/]+\/)?[^/]+/.exec(to)![0])
      else if (!files.includes(to)) files.push(to)
    }
  }
  // The store of the package, which every server opens.
  return [...packages, 'better-sqlite3']
}

describe('requiredPackages', () => {
  const ofAuth = ['better-sqlite3@12', 'cors@2', 'express@5', 'helmet@8', 'pino@10', 'prom-client@15', 'zod@4']

  it('are seven for the auth server, with an IPFS node or without', () => {
    expect(requiredPackages(['auth'], false)).toEqual(ofAuth)
    expect(requiredPackages(['auth'], true)).toEqual(ofAuth)
  })

  it('are three more for the vault, and four for the relay', () => {
    const more = (server: 'relay' | 'vault'): string[] =>
      requiredPackages([server], false).filter((name) => !ofAuth.includes(name))
    expect(more('vault')).toEqual(['@ipld/dag-pb@4', 'ipfs-unixfs@13', 'multiformats@14'])
    expect(more('relay')).toEqual(['@ipld/dag-pb@4', 'ipfs-unixfs@13', 'lru-cache@11', 'multiformats@14'])
  })

  it('are each named once for all servers, and the client of a node only where there is one', () => {
    const all = requiredPackages(['auth', 'relay', 'vault'], false)
    expect(all).toHaveLength(11)
    expect(new Set(all).size).toBe(11)
    const withNode = requiredPackages(['auth', 'relay', 'vault'], true)
    expect(withNode.filter((name) => !all.includes(name))).toEqual(['ipfs-http-client@60'])
  })

  it('have the major versions that the servers are tested with', () => {
    const ranges = requiredPackages(['relay'], true).map((name) => [name, devDependencies[bareName(name)]])
    const expected = requiredPackages(['relay'], true).map((name) => [
      name,
      expect.stringMatching(`^\\^${name.split('@').at(-1)!}\\.`)
    ])
    expect(ranges).toEqual(expected)
  })

  it.each(['auth', 'relay', 'vault'] as const)('are what the %s server loads and the library does not', (name) => {
    const loaded = packagesOf(name).filter((to) => !(to in dependencies))
    expect(loaded).toContain('pino')
    const required = requiredPackages([name], true).map(bareName)
    expect(loaded.filter((to) => !required.includes(to))).toEqual([])
    expect(required.filter((to) => !loaded.includes(to))).toEqual([])
  })
})

describe('assertPackagesInstalled', () => {
  const needed = ['@ipld/dag-pb@4', 'cors@2', 'express@5']
  const installed = { '@ipld/dag-pb': 4, cors: 2, express: 5 }
  const withMajors = (majors: Record<string, number | undefined>) => (): void => {
    assertPackagesInstalled(needed, (name) => majors[name])
  }

  it('is silent when all are there, or newer, and where Express is one major version older', () => {
    expect(withMajors(installed)).not.toThrow()
    expect(withMajors({ ...installed, cors: 3 })).not.toThrow()
    expect(withMajors({ ...installed, express: 4 })).not.toThrow()
  })

  it('names what is missing or too old, and the command that installs it', () => {
    const sentence = 'The servers need the package cors@2: npm install cors@2'
    expect(withMajors({ ...installed, cors: undefined })).toThrow(sentence)
    expect(withMajors({ ...installed, cors: 1 })).toThrow(sentence)
    expect(withMajors({ cors: 2, express: 3 })).toThrow(
      'The servers need the packages @ipld/dag-pb@4, express@5: npm install @ipld/dag-pb@4 express@5'
    )
  })

  it('finds the versions that are installed here', () => {
    const all = requiredPackages(['relay', 'vault'], true)
    expect(() => {
      assertPackagesInstalled(all)
    }).not.toThrow()
    const tooNew = all.map((name) => name.replace(/\d+$/, (major) => String(Number(major) + 100)))
    expect(() => {
      assertPackagesInstalled(tooNew.filter((name) => !name.startsWith('express@')))
    }).toThrow(`npm install ${tooNew.filter((name) => !name.startsWith('express@')).join(' ')}`)
    expect(() => {
      assertPackagesInstalled(['no-such-package@1'])
    }).toThrow('npm install no-such-package@1')
  })
})
