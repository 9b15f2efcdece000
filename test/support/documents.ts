import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Absolute path of the repository. */
export const root = fileURLToPath(new URL('../..', import.meta.url))

/** The reference of the library: an index, and a page for each door. */
export const referenceFiles: readonly string[] = [
  'src/README.md',
  ...['config', 'client', 'protocol', 'stores', 'verify', 'testing', 'adapters', 'http'].map(
    (door) => `src/${door}/README.md`
  ),
  'src/client/KEYS.md',
  'src/RECIPES.md'
]

/** The documents, as paths from the top of the repository. The last two come with their servers. */
export const documentFiles: readonly string[] = [
  'README.md',
  'SECURITY.md',
  'CONTRIBUTING.md',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  ...referenceFiles,
  'examples/README.md',
  'test/README.md',
  'test/bench/README.md',
  'servers/README.md',
  ...['BACKUP', 'DEPLOY', 'INSTANCES', 'MAINTENANCE', 'MIGRATION', 'SIZING'].map((page) => `servers/${page}.md`),
  'servers/docker/README.md',
  'servers/relay/README.md',
  'servers/vault/README.md'
].filter((file) => existsSync(join(root, file)))

/** @param file - path from the top of the repository */
export function readDocument(file: string): Markdown {
  return readMarkdown(join(root, file))
}

/** The first recipe of src/RECIPES.md that has a text. */
export function recipe(part: string): string {
  const block = readDocument('src/RECIPES.md').blocks.find(({ code }) => code.includes(part))
  if (block === undefined) throw new Error(`no recipe with ${part}`)
  return block.code
}

/** Subpaths that a package of this repository exports, such as `./verify`. */
export function listSubpaths(name: string): string[] {
  const folder = name === 'express-did-auth-client' ? 'src/client' : '.'
  const { exports } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as { exports: object }
  return Object.keys(exports)
}

export const packageJson = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>
  overrides: Record<string, unknown>
}

/** A piece of code in a document. */
export interface CodeBlock {
  language: string
  code: string
}

/** A document in Markdown, as the tests look at it. */
export interface Markdown {
  text: string
  /** The text without its code blocks. */
  prose: string
  blocks: CodeBlock[]
}

export function readMarkdown(file: string): Markdown {
  const text = readFileSync(file, 'utf8')
  const fence = /^( *)```(\w*)\n([^]*?)^ *```$/gm
  const blocks = [...text.matchAll(fence)].map(([, indent = '', language = '', code = '']) => ({
    language,
    code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), '')
  }))
  return { text, prose: text.replaceAll(fence, ''), blocks }
}

/**
 * The rows of the first table under a heading, each cell without the blanks around it.
 *
 * @throws Error when there is no such heading or table
 */
export function tableUnder({ prose }: Markdown, heading: string): string[][] {
  const section = prose.split(/^#+ /m).find((part) => part.startsWith(`${heading}\n`))
  const lines = section?.split('\n').filter((line) => line.startsWith('|')) ?? []
  if (lines.length < 3) throw new Error(`no table under "${heading}"`)
  return lines.slice(2).map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll('\\|', '|'))
  )
}

/** The anchors that GitHub makes of headings. */
export function listAnchors({ prose }: Markdown): string[] {
  return [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-')
  )
}

/** Targets of all links: a path, an anchor, an address. */
export function listLinks({ prose }: Markdown): string[] {
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
}

/**
 * The argument of `node --import` that sends what a client asks of `localhost:3000` to another port. The login domain
 * of the examples stays `localhost:3000`, wherever a test lets them listen.
 */
export function clientHook(port: number | string): string {
  const hook = `const send = globalThis.fetch
globalThis.fetch = (url, init) => send(String(url).replace('localhost:3000', '127.0.0.1:${port}'), init)`
  return `data:text/javascript,${encodeURIComponent(hook)}`
}
