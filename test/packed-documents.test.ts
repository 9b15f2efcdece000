import { afterAll, describe, expect, it } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { listLinks, readMarkdown } from './support/documents.js'

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

describe.each(['express-did-auth', 'express-did-auth-servers'])('the documents packed in %s', (name) => {
  const folder = join(root, name === 'express-did-auth' ? '.' : 'servers')
  const files = listFiles(folder)
  const documents = files.filter((path) => path.endsWith('.md'))

  it('are packed without an environment file, which may contain private keys', () => {
    expect(files).toContain(name === 'express-did-auth' ? 'servers/docker/compose.yaml' : 'docker/compose.yaml')
    expect(files.filter((path) => path.includes('.env'))).toEqual([])
  })

  it('are packed without examples that need a checkout', () =>
    expect(files.filter((path) => /^examples\/demo.*\.ts$/.test(path))).toEqual([]))

  it('include a README', () => expect(documents).toContain('README.md'))

  it.each(documents)('%s links only to packed files', (document) => {
    const relative = listLinks(readMarkdown(join(folder, document))).filter((link) => !/^(?:https?:|#)/.test(link))
    const targets = relative.map((link) => posix.join(posix.dirname(document), link.split('#')[0]!))
    expect(targets.filter((path) => !files.includes(path))).toEqual([])
  })
})
