import { describe, expect, it } from '@jest/globals'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { readDocument, root } from '../support/fixtures/documents.js'

const { text } = readDocument('ARCHITECTURE.md')
const [, tree = ''] = /```\n(src\/[\s\S]*?)```/.exec(text) ?? []

/** Lists the folders of sources directly below one. */
const listFolders = (folder: string): string[] =>
  readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !['dist', 'node_modules'].includes(entry.name))
    .map(({ name }) => name)

/** Folders without code, which pages of their own describe. */
const OWN_PAGES: readonly string[] = ['docker', 'monitoring']

describe('ARCHITECTURE.md', () => {
  it('names only files that exist', () => {
    const files = [...text.matchAll(/`((?:src|servers|test)\/[\w./-]+)`/g)].map(([, file = '']) => file)
    expect(files.length).toBeGreaterThan(50)
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([])
  })

  it.each(['src', 'servers'])('has a line for each folder of %s', (folder) => {
    const start = tree.indexOf(`${folder}/\n`)
    const lines = tree.slice(start, folder === 'src' ? tree.indexOf('servers/\n') : undefined)
    const missing = listFolders(folder).filter((name) => !OWN_PAGES.includes(name) && !lines.includes(` ${name}/ `))
    expect(missing).toEqual([])
  })
})
