/** Prepares the pages of the site from the Markdown files of the repository. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { manifest, pagesDir, read, rewriteLinks, rootDir } from './links.js'

/** Groups of the sidebar: title, and patterns of files in the order of the pages. A page belongs to the first group. */
const GROUPS = [
  ['Start', [/^README/, /guides\/(?:TUTORIAL|GLOSSARY|FAQ)/, /^examples\//]],
  ['Operate', [/guides\/(?:PRODUCTION|MONITORING)/, /^servers\/(?:DEPLOY|INSTANCES|docker|monitoring|[BMS])(?!IGR)/]],
  ['Guides', [/guides\/README/, /^src\/guides\/(?!ERRORS)/, /RECIPES/, /^src\/testing\//, /MIGRATION/]],
  ['Client', [/^src\/client\/README/, /^src\/client\//]],
  ['Servers', [/^servers\/README/, /^servers\//]],
  ['Reference', [/^src\/README/, /^src\/config\//, /^src\/guides\/ERRORS/, /^src\/protocol\//, /^src\//]],
  ['Project', [/^SECURITY/, /^CHANGELOG/, /^CONTRIBUTING/, /./]]
]
/** Order of the groups in the sidebar. */
const ORDER = ['Start', 'Guides', 'Reference', 'Client', 'Servers', 'Operate', 'Project']
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
  const nested = ['src', 'servers', 'examples', 'test'].flatMap((folder) =>
    readdirSync(join(rootDir, folder), { recursive: true }).map((name) => posix.join(folder, name))
  )
  return [...readdirSync(rootDir), ...nested.sort()].filter(
    (file) => file.endsWith('.md') && !/(?:^|\/)(?:node_modules|dist)\/|^test\/(?:support|slow)\//.test(file)
  )
}

/** Returns the address of a document: `src/client/KEYS.md` is `client/keys.md`, and a README is an index. */
const toAddress = (file) =>
  ADDRESSES[file] ??
  file
    .replace(/^src\//, '')
    .replace('README', 'index')
    .toLowerCase()

/** Returns the first paragraph of prose in one line, without links. */
export function findSummary(text) {
  const paragraph = text.split(/\n\s*\n/).find((part) => /^[A-Z0-9`*"]/.test(part.trim())) ?? ''
  return paragraph
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

/** Writes all pages. @returns the groups of the sidebar, each with the addresses and titles of its pages */
export function preparePages() {
  const documents = listDocuments()
  const write = (address, text) => {
    mkdirSync(dirname(join(pagesDir, address)), { recursive: true })
    writeFileSync(join(pagesDir, address), text)
  }
  const findAddress = (file, anchor) => {
    if (!documents.includes(file)) return undefined
    const code = anchor?.toUpperCase()
    if (file.endsWith('/ERRORS.md') && read(file).includes(`### \`${code}\`\n`)) return `errors/${code}.md`
    return toAddress(file) + (anchor === undefined ? '' : `#${anchor}`)
  }
  const writePage = (file, address, text) => write(address, rewriteLinks(file, address, text, findAddress, write))

  for (const file of documents) {
    const parts = file.endsWith('/ERRORS.md') ? splitErrors(file) : [[toAddress(file), read(file)]]
    for (const [address, text] of parts) writePage(file, address, text)
  }
  writePage('README.md', 'index.md', createLandingPage())

  const others = new Set(documents)
  const groups = GROUPS.map(([text, patterns]) => {
    const files = patterns.flatMap((pattern) => documents.filter((file) => pattern.test(file) && others.delete(file)))
    const findTitle = (file) => LABELS[file] ?? read(file).match(/^# (.+)$/m)?.[1] ?? file
    return { text, items: files.map((file) => ({ text: findTitle(file), address: toAddress(file) })) }
  })
  return ORDER.map((text) => groups.find((group) => group.text === text))
}

/** Splits a document in which each heading of level 3 is an error code. @returns addresses and texts of the pages */
function splitErrors(file) {
  const pages = []
  const index = read(file).replaceAll(/^### `(\w+)`\n([^]*?)(?=^##|$(?![^]))/gm, (_section, code, body) => {
    const paragraphs = body.trim().replaceAll(/\s(?=\*\*(?:Cause|Remedy)\*\*)/g, '\n\n')
    const frontmatter = '---\nprev: false\nnext: false\n---\n\n'
    pages.push([
      `errors/${code}.md`,
      `${frontmatter}# ${code}\n\n${paragraphs}\n\n[All codes](${posix.basename(file)})\n`
    ])
    return `- [\`${code}\`](ERRORS.md#${code.toLowerCase()}): ${findSummary(body.split('**Remedy**')[0])}\n`
  })
  return [[toAddress(file), index], ...pages]
}

/** Fills the landing page with the first sentences and the quick start of the README. */
function createLandingPage() {
  const readme = read('README.md')
  const [title, ...others] = findSummary(readme).split(/(?<=\.) /)
  const parts = {
    NAME: manifest.name,
    TITLE: title.replace(/\.$/, ''),
    SENTENCE: [title, ...others.slice(0, 2)].join(' '),
    QUICK_START: readme.match(/^```(?:ts|js)\n[^]*?^```$/m)[0],
    INSTALL: readme.match(/^npm install express express-did-auth.*$/m)[0]
  }
  return read('.site/landing.md').replaceAll(/%(\w+)%/g, (_mark, name) => parts[name])
}
