/** Prepares the pages of the site from the Markdown files of the repository. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { pagesDir, read, rewriteLinks, rootDir } from './links.js'

/** Groups of the sidebar: title, and patterns of files in the order of the pages. A file belongs to the first match. */
const GROUPS = [
  ['Start', [/^README/, /TUTORIAL\.md/, /TUTORIAL/, /guides\/(?:GLOSSARY|FAQ)/, /^examples\/README/]],
  [
    'Guides',
    [
      /guides\/README/,
      /guides\/(?!ERRORS|PRODUCTION|MONITORING)/,
      /RECIPES/,
      /^src\/testing\//,
      /MIGRATION/,
      /^examples/
    ]
  ],
  ['Reference', [/^src\/README/, /^src\/config\//, /guides\/ERRORS/, /^src\/protocol\//, /^src\/(?!client|guides)/]],
  ['Client', [/^src\/client\/README/, /^src\/client\//]],
  ['Servers', [/^servers\/README/, /^servers\/(?:relay|vault|ERRORS)/]],
  ['Operate', [/guides\/(?:PRODUCTION|MONITORING)/, /^servers\//]],
  ['Project', [/^SECURITY/, /^CHANGELOG/, /^CONTRIBUTING/, /./]]
]
/** Titles of pages whose heading is unclear in the sidebar. */
const LABELS = { 'README.md': 'Introduction', 'src/client/MACHINES.md': 'The client of machines' }
/** Addresses that do not follow from the path. */
const ADDRESSES = {
  'README.md': 'introduction.md',
  'src/README.md': 'reference/index.md',
  'src/guides/ERRORS.md': 'errors/index.md'
}

/** Lists the documents of the repository, as paths from its root. */
function listDocuments() {
  const list = (folder) => readdirSync(join(rootDir, folder), { recursive: true }).map((name) => `${folder}/${name}`)
  const files = [...readdirSync(rootDir), ...['src', 'servers', 'examples', 'test'].flatMap(list).sort()]
  const omitted = /(?:^|\/)(?:node_modules|dist)\/|^test\/(?:support|slow)\//
  return files.filter((file) => file.endsWith('.md') && !omitted.test(file))
}

/** Returns the address of a document: `src/client/KEYS.md` is `client/keys.md`, and a README is an index. */
const toAddress = (file) =>
  ADDRESSES[file] ?? file.replace(/^src\/|README/g, (part) => (part === 'README' ? 'index' : '')).toLowerCase()
const isErrors = (file) => file.endsWith('/ERRORS.md')

/** Returns the first paragraph of prose in one line, without links. */
export function findSummary(text) {
  const paragraph = text.split(/\n\s*\n/).find((part) => /^(?:[A-Z0-9*"]|`(?!`))/.test(part.trim())) ?? ''
  const line = paragraph.trim().replaceAll(/\s+/g, ' ')
  return line.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
}

/** Writes all pages. @returns the groups of the sidebar, each with the titles and addresses of its pages */
export function preparePages() {
  const documents = listDocuments()
  const write = (address, text) => {
    mkdirSync(dirname(join(pagesDir, address)), { recursive: true })
    writeFileSync(join(pagesDir, address), text)
  }
  const findAddress = (file, anchor) => {
    if (!documents.includes(file)) return undefined
    const code = anchor?.toUpperCase()
    if (isErrors(file) && read(file).includes(`### \`${code}\`\n`)) return `errors/${code}.md`
    return toAddress(file) + (anchor === undefined ? '' : `#${anchor}`)
  }
  const pages = documents.flatMap((file) =>
    isErrors(file) ? splitErrors(file) : [[file, toAddress(file), read(file)]]
  )
  // The landing page begins as the README does, up to its first chapter.
  const introduction = read('README.md').split(/^## /m)[0]
  pages.push(['README.md', 'index.md', read('.site/landing.md').replace('%INTRODUCTION%', () => introduction)])
  for (const [file, address, text] of pages) write(address, rewriteLinks(file, address, text, findAddress, write))

  const others = new Set(documents)
  return GROUPS.map(([text, patterns]) => {
    const files = patterns.flatMap((pattern) => documents.filter((file) => pattern.test(file) && others.delete(file)))
    const findTitle = (file) => LABELS[file] ?? read(file).match(/^# (.+)$/m)?.[1] ?? file
    return { text, items: files.map((file) => ({ text: findTitle(file), link: `/${toAddress(file)}` })) }
  })
}

/** Splits a document in which each heading of level 3 is an error code. @returns its file, addresses and texts */
function splitErrors(file) {
  const pages = []
  const index = read(file).replaceAll(/^### `(\w+)`\n([^]*?)(?=^##|$(?![^]))/gm, (_section, code, body) => {
    const paragraphs = body.trim().replaceAll(/\s(?=\*\*(?:Cause|Remedy)\*\*)/g, '\n\n')
    pages.push([file, `errors/${code}.md`, `# ${code}\n\n${paragraphs}\n\n[All codes](ERRORS.md)\n`])
    return `- [\`${code}\`](ERRORS.md#${code.toLowerCase()}): ${findSummary(body.split('**Remedy**')[0])}\n`
  })
  return [[file, toAddress(file), index], ...pages]
}
