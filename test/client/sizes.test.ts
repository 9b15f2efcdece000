import { describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build, type Plugin } from 'esbuild'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Entries for pages, and the maximum of their bytes, minified and compressed with gzip. */
const entries: [entry: string, source: string, bytes: number][] = [
  ['express-did-auth-client', 'src/client/index.ts', 8_200],
  ['express-did-auth-client/siwe', 'src/client/siwe/index.ts', 2_600],
  ['express-did-auth-client/relay', 'src/client/relay/index.ts', 4_400],
  ['express-did-auth-client/vault', 'src/client/vault/index.ts', 4_000],
  ['express-did-auth-client/keyring', 'src/client/keyring/index.ts', 3_800],
  ['express-did-auth-client/passkey', 'src/client/passkey/index.ts', 17_200],
  ['express-did-auth-client/machine', 'src/client/machine/index.ts', 3_800],
  ['express-did-auth-client/qr', 'src/client/qr/index.ts', 5_000]
]

/** Modules that a page loads on demand, and whose size does not count. */
const loadedLater: Plugin = {
  name: 'loaded-later',
  setup({ onResolve }) {
    onResolve({ filter: /^/ }, ({ kind, path }) => (kind === 'dynamic-import' ? { path, external: true } : undefined))
  }
}

/** Packages whose size counts with the entries that need them: an optional package, and the curve. */
const brought: Readonly<Record<string, RegExp>> = {
  'express-did-auth-client/qr': /node_modules\/uqr\//,
  'express-did-auth-client/passkey': /node_modules\/@noble\//
}

describe.each([
  ['the EIP-4361 module', 'siwe-login', 3_500],
  ['the module of the device key', 'device-key', 1_600]
])('%s of express-did-auth-client', (_name, module, bytes) =>
  it(`loads separately, and has at most ${bytes} bytes`, async () => {
    const { outputFiles } = await build({
      entryPoints: [`${root}/src/client/index.ts`],
      outdir: root,
      splitting: true,
      bundle: true,
      minify: true,
      format: 'esm',
      platform: 'browser',
      write: false,
      legalComments: 'none'
    })
    const later = outputFiles.filter(({ path }) => path.includes(module))
    expect(later).toHaveLength(1)
    expect(gzipSync(later[0]!.contents, { level: 9 }).length).toBeLessThanOrEqual(bytes)
  })
)

/** Statements of sizes in kB in the documents, in the order of the entries. */
const stated: readonly (readonly [page: string, pattern: RegExp, entries: readonly string[]])[] = [
  ['README.md', /a client of ([\d.]+) kB/, ['client']],
  ['src/client/README.md', /It is ([\d.]+) kB \(minified, gzip\)/, ['client']],
  ['src/client/README.md', /`express-did-auth-client\/siwe` \(([\d.]+) kB\)/, ['client/siwe']],
  ['src/client/README.md', /client\/relay` \|.*\| ([\d.]+) kB/, ['client/relay']],
  ['src/client/README.md', /client\/vault` \|.*\| ([\d.]+) kB/, ['client/vault']],
  ['src/client/README.md', /client\/qr` \|.*\| ([\d.]+) kB/, ['client/qr']],
  ['src/client/KEYS.md', /client\/passkey` \(([\d.]+) kB/, ['client/passkey']],
  ['src/client/KEYS.md', /client\/keyring` \(([\d.]+) kB/, ['client/keyring']],
  ['src/client/MACHINES.md', /client\/machine` \(([\d.]+) kB/, ['client/machine']],
  [
    'test/bench/README.md',
    /\| ([\d.]+) \/ ([\d.]+) \/ ([\d.]+) \/ ([\d.]+) kB; EIP-4361 ([\d.]+) kB.*keyring ([\d.]+) kB, passkey ([\d.]+)/,
    ['client', 'client/relay', 'client/vault', 'client/qr', 'client/siwe', 'client/keyring', 'client/passkey']
  ]
]

/** Measured sizes in bytes, by entry. */
const measured = new Map<string, number>()

describe.each(entries)('%s', (entry, source, bytes) =>
  it(`has at most ${bytes} bytes, and needs neither Node nor another package`, async () => {
    const { outputFiles, metafile } = await build({
      stdin: { contents: `export * from './${source}'`, resolveDir: root },
      bundle: true,
      minify: true,
      format: 'esm',
      platform: 'browser',
      write: false,
      metafile: true,
      legalComments: 'none',
      plugins: [loadedLater]
    })
    const size = gzipSync(outputFiles[0]!.contents, { level: 9 }).length
    process.stdout.write(`${entry}: ${size} bytes, minified and gzip\n`)
    measured.set(entry, size)
    expect(size).toBeLessThanOrEqual(bytes)
    const inputs = Object.keys(metafile.inputs).filter(
      (path) => !/(?:^|\/)src\/(?:client|protocol)\/|^<stdin>$/.test(path) && brought[entry]?.test(path) !== true
    )
    expect(inputs).toEqual([])
  })
)

describe('pages that state sizes', () =>
  it('agree, within 0.1 kB of the measured sizes', () => {
    const byEntry = new Map<string, Set<number>>()
    for (const [page, pattern, named] of stated) {
      const [, ...sizes] = pattern.exec(readFileSync(`${root}/${page}`, 'utf8')) ?? []
      for (const [index, entry] of named.entries())
        byEntry.set(entry, (byEntry.get(entry) ?? new Set()).add(Number(sizes[index])))
    }
    for (const [entry, sizes] of byEntry) {
      expect([entry, ...sizes]).toHaveLength(2)
      const kilobytes = (measured.get(`express-did-auth-${entry}`) ?? 0) / 1_000
      expect(Math.abs(kilobytes - [...sizes][0]!)).toBeLessThanOrEqual(0.1)
    }
  }))
