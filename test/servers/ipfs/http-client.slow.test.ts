import { expect, it } from '@jest/globals'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type * as client from 'ipfs-http-client'
import { startFaultyNode } from '../../support/faults/faulty-ipfs-node.js'
import { root } from '../../support/engines/packed-package.js'

it("the bundled IPFS client imports only Node, reaches a node, and includes its packages' licences", async () => {
  const folder = mkdtempSync(join(tmpdir(), 'did-auth-bundle-'))
  const faulty = await startFaultyNode()
  try {
    const [file, noticesFile] = [join(folder, 'http-client.mjs'), join(folder, 'THIRD-PARTY-LICENSES')]
    const { bundleIpfsClient } = (await import(join(root, '.config/bundle-ipfs-client.js'))) as {
      bundleIpfsClient: (file: string, noticesFile: string) => Promise<void>
    }
    await bundleIpfsClient(file, noticesFile)
    const imports = [...readFileSync(file, 'utf8').matchAll(/(?:\bfrom ?|\bimport\(?)"([\w@:./-]+)"/g)]
    expect(imports.map(([, name]) => name!).filter((name) => !isBuiltin(name))).toEqual([])
    expect(statSync(file).size).toBeLessThan(450_000)
    const { create } = (await import(pathToFileURL(file).href)) as typeof client
    await create({ url: faulty.url }).version()
    expect(faulty.calls.version).toBe(1)
    const notices = readFileSync(noticesFile, 'utf8')
    // The versions that package.json overrides, because older ones have known vulnerabilities.
    for (const name of [/^ipfs-http-client 60\./m, /^nanoid 5\./m, /^parse-duration 2\./m])
      expect(notices).toMatch(name)
    const chapters = notices.split(`\n${'-'.repeat(80)}\n`).slice(1)
    expect(chapters.filter((text) => !/copyright|\(c\)|Apache License/i.test(text))).toEqual([])
  } finally {
    await faulty.stop()
    rmSync(folder, { recursive: true })
  }
})
