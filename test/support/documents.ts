import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readMarkdown, type Markdown } from './readme.js'

/** Absolute path of the repository. */
export const root = fileURLToPath(new URL('../..', import.meta.url))

/** The reference of the library: an index, and a page for each door. */
export const referenceFiles: readonly string[] = [
  'src/README.md',
  ...['config', 'client', 'protocol', 'stores', 'verify', 'testing'].map((door) => `src/${door}/README.md`)
]

/** The documents, as paths from the top of the repository. The last two come with their servers. */
export const documentFiles: readonly string[] = [
  'README.md',
  'SECURITY.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...referenceFiles,
  'examples/README.md',
  'test/README.md',
  'test/bench/README.md',
  'servers/README.md',
  'servers/INSTANCES.md',
  'servers/MIGRATION.md',
  'servers/relay/README.md',
  'servers/vault/README.md'
].filter((file) => existsSync(join(root, file)))

/** @param file - path from the top of the repository */
export function readDocument(file: string): Markdown {
  return readMarkdown(join(root, file))
}

export const packageJson = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>
  exports: Record<string, unknown>
  overrides: Record<string, unknown>
}
