import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const rootDir = fileURLToPath(new URL('..', import.meta.url))

/** Plugin that replaces the client's `fetch` packages for older runtimes by Node's own `fetch`. */
const nodeFetch = {
  name: 'node-fetch',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /(?:^|\/)(?:native-fetch|electron-fetch|http\/fetch)$/ }, ({ path }) => ({
      path,
      namespace: 'node-fetch'
    }))
    onLoad({ filter: /./, namespace: 'node-fetch' }, () => ({
      contents: `const fetch = (...call) => globalThis.fetch(...call)
module.exports = { default: fetch, fetch, Headers, Request, Response }`
    }))
  }
}

/**
 * Bundles ipfs-http-client and its packages, in the versions of the lock file. The servers include the bundle, so that
 * operators need not install packages for their IPFS node.
 *
 * @param {string} file - the compiled `servers/ipfs/http-client.ts`, which is replaced
 * @param {string} noticesFile - receives the licences of the bundled packages
 */
export async function bundleIpfsClient(file, noticesFile) {
  const { metafile } = await build({
    absWorkingDir: rootDir,
    entryPoints: ['servers/ipfs/http-client.ts'],
    outfile: file,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    minify: true,
    metafile: true,
    legalComments: 'none',
    logLevel: 'warning',
    tsconfigRaw: {},
    plugins: [nodeFetch],
    banner: {
      js: `// Licences of the packages in this bundle: THIRD-PARTY-LICENSES.
import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)`
    }
  })
  writeFileSync(noticesFile, formatNotices(metafile))
}

/** Formats the licences of all packages in a bundle. Identical texts are printed once. */
function formatNotices({ inputs }) {
  const folders = new Set(Object.keys(inputs).flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []))
  const packages = new Map()
  for (const folder of [...folders].sort()) {
    const { name, version, license, author } = JSON.parse(readFileSync(join(rootDir, folder, 'package.json'), 'utf8'))
    const holder = typeof author === 'object' ? author.name : (author ?? `the authors of ${name}`)
    const licence = readLicence(join(rootDir, folder))
    // Some files only name the licence. The full Apache License is in the chapter of the package `long`.
    const isComplete = /Permission (?:is hereby granted|to use)|Redistribution and use|the Apache License/.test(licence)
    const text = isComplete ? licence : [licence, getStandardText(license, holder)].join('\n\n').trim()
    packages.set(text, (packages.get(text) ?? new Set()).add(`${name} ${version} (${license})`))
  }
  const chapters = [...packages].map(([text, names]) => `${[...names].join('\n')}\n\n${text}\n`)
  const head =
    'dist/ipfs/http-client.js contains the following packages. Each chapter is the licence of the packages above it.\n'
  return [head, ...chapters].join(`\n${'-'.repeat(80)}\n\n`)
}

function readLicence(folder) {
  const files = readdirSync(folder).filter((name) => /^(?:licen[cs]e|notice)(?:[.-]|$)/i.test(name))
  return files.map((name) => readFileSync(join(folder, name), 'utf8').trim()).join('\n\n')
}

/** Returns the standard text of a licence for packages that only name it. @throws Error for an unknown licence */
function getStandardText(license, holder) {
  const text = license.includes('MIT') ? MIT : license === 'ISC' ? ISC : undefined
  if (text === undefined)
    throw new Error(`The text of the licence ${license} is unknown: add it to .config/bundle-ipfs-client.js`)
  return `Copyright (c) ${holder}\n\n${text}`
}

const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`

const ISC = `Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby
granted, provided that the above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL
IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT,
INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN
ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF
THIS SOFTWARE.`
