import { afterAll, describe, expect, it } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { listLinks, readMarkdown } from './support/fixtures/documents.js'

const root = fileURLToPath(new URL('..', import.meta.url))

/** File like that of `keys new --out servers/docker/.env`, with an unused name. */
const planted = join(root, `servers/docker/.env.of-test-${process.pid}`)
writeFileSync(planted, 'PRIVATE_KEY=\n')
afterAll(() => rmSync(planted))

/** Returns the files that npm would pack, relative to the package. */
function listFiles(folder: string): string[] {
  const args = ['pack', '--dry-run', '--ignore-scripts', '--json', '--loglevel=error', '--workspaces=false']
  const output = execFileSync('npm', args, { cwd: folder, encoding: 'utf8' })
  const [packed] = JSON.parse(output.slice(output.indexOf('['))) as [{ files: { path: string }[] }]
  return packed.files.map(({ path }) => path)
}

const folders = {
  'express-did-auth': '.',
  'express-did-auth-client': 'src/client',
  'express-did-auth-servers': 'servers'
}
const packed = Object.entries(folders).map(([name, folder]) => ({ name, folder, files: listFiles(join(root, folder)) }))

describe.each(packed)('the documents packed in $name', ({ name, folder, files }) => {
  const documents = files.filter((path) => path.endsWith('.md'))

  it('are packed without an environment file, which may contain private keys', () => {
    if (name !== 'express-did-auth-client') {
      expect(files).toContain(posix.join(posix.relative(folder, 'servers'), 'docker/compose.yaml'))
    }
    expect(files.filter((path) => path.includes('.env'))).toEqual([])
  })

  it('are packed without examples that need a checkout', () =>
    expect(files.filter((path) => /^examples\/demo.*\.ts$/.test(path))).toEqual([]))

  it('include a README', () => expect(documents).toContain('README.md'))

  // The reference has one index for library and client, so that pages of the client also link to pages of the library.
  const linkable = name === 'express-did-auth-client' ? packed.slice(0, 2) : packed.filter((one) => one.name === name)
  const targets = linkable.flatMap((one) => one.files.map((path) => posix.join(one.folder, path)))
  it.each(documents)('%s links only to packed files', (document) => {
    const path = posix.join(folder, document)
    const relative = listLinks(readMarkdown(join(root, path))).filter((link) => !/^(?:https?:|#)/.test(link))
    const linked = relative.map((link) => posix.join(posix.dirname(path), link.split('#')[0]!))
    expect(linked.filter((target) => !targets.includes(target))).toEqual([])
  })
})
