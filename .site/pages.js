/** Markdown files of the repository as pages of the site: their addresses, titles, order and rewritten links. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, extname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

export const rootDir = fileURLToPath(new URL('..', import.meta.url))
/** Folder of the prepared pages, which VitePress reads. */
export const pagesDir = join(rootDir, '.cache/site/pages')
const read = (file) => readFileSync(join(rootDir, file), 'utf8')
const manifest = JSON.parse(read('package.json'))
const ERRORS = 'src/guides/ERRORS.md'

/** Groups of the sidebar. A file belongs to the first pattern that it matches; `other` takes the remaining files. */
const GROUPS = [
  ['start', 'Start', [/^README\.md$/, /guides\/(?:TUTORIAL|GLOSSARY|FAQ)/, /^examples\//]],
  ['operate', 'Operate', [/guides\/(?:PRODUCTION|MONITORING|CHECK)/, /^servers\/(?!(?:README|MIGRATION|relay|vault))/]],
  ['guides', 'Guides', [/^src\/guides\/(?!ERRORS)/, /RECIPES/, /^src\/testing\//, /MIGRATION/]],
  ['client', 'Client', [/^src\/client\/README/, /^src\/client\//]],
  ['servers', 'Servers', [/^servers\/README/, /^servers\//]],
  ['reference', 'Reference', [/^src\/README/, /^src\/config\//, /guides\/ERRORS/, /^src\/protocol\//, /^src\//]],
  ['project', 'Project', [/^SECURITY/, /^CHANGELOG/, /^CONTRIBUTING/, /./]]
]
/** Order of the groups in the sidebar. */
const ORDER = ['start', 'guides', 'reference', 'client', 'servers', 'operate', 'project']
const LABELS = { 'README.md': 'Introduction', 'src/client/MACHINES.md': 'The client of machines' }
const CODE_LANGUAGES = { '.mjs': 'js', '.cjs': 'js', '.cfg': 'ini', '': 'docker' }
const IMAGES = ['.svg', '.webp', '.png']

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
function toAddress(file) {
  if (file === 'README.md') return 'introduction.md'
  if (file === ERRORS) return 'errors/index.md'
  if (file === 'src/README.md') return 'reference/index.md'
  return file
    .replace(/^src\//, '')
    .replace(/README\.md$/, 'index.md')
    .toLowerCase()
}

const findTitle = (text) => text.match(/^# (.+)$/m)?.[1] ?? ''
/** Returns the first paragraph of prose in one line, without links. */
export const findSummary = (text) => {
  const paragraph = text.split(/\n\s*\n/).find((part) => /^[A-Z`*]/.test(part.trim())) ?? ''
  return paragraph
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

/** Applies a function to the parts of a text that are not code blocks. */
const mapProse = (text, change) =>
  text
    .split(/(^ *```[^]*?^ *```$)/m)
    .map((part, index) => (index % 2 === 0 ? change(part) : part))
    .join('')

/** Writes all pages. @returns the groups of the sidebar, each with the address and the title of its pages */
export function preparePages() {
  const documents = listDocuments()
  const addresses = new Map(documents.map((file) => [file, toAddress(file)]))
  const write = (address, text) => {
    mkdirSync(dirname(join(pagesDir, address)), { recursive: true })
    writeFileSync(join(pagesDir, address), text)
  }

  /** Returns the address that a link in a document has on the site. Undefined: the site does not contain its target. */
  const resolveLink = (file, from, link) => {
    if (/^(?:\w+:|#)/.test(link)) return link
    const [path, anchor] = link.split('#')
    const target = posix.join(posix.dirname(file), path)
    const code = target === ERRORS && anchor !== undefined ? anchor.toUpperCase() : undefined
    const relative = (address) => {
      const way = posix.relative(posix.dirname(from), address)
      return way.startsWith('.') ? way : `./${way}`
    }
    if (code !== undefined && read(ERRORS).includes(`### \`${code}\``)) return relative(`errors/${code}.md`)
    const hash = anchor === undefined ? '' : `#${anchor}`
    if (addresses.has(target)) return relative(addresses.get(target)) + hash
    const folder = join(rootDir, target)
    if (!existsSync(folder) || statSync(folder).isDirectory()) return undefined
    if (IMAGES.includes(extname(target))) {
      cpSync(folder, join(pagesDir, target), { recursive: true })
      return relative(target)
    }
    if (!/^(?:examples|servers\/docker|servers\/monitoring)\//.test(target)) return undefined
    const language = CODE_LANGUAGES[extname(target)] ?? extname(target).slice(1)
    // A dot would be read as the ending of a file.
    const address = `code/${target.replaceAll('.', '-')}.md`.toLowerCase()
    const block = `\`\`\`\`${language}\n${read(target)}\`\`\`\`\n`
    write(address, `---\nsearch: false\n---\n\n# ${posix.basename(target)}\n\n\`${target}\`\n\n${block}`)
    return relative(address)
  }
  const repository = manifest.repository?.url?.replace(/^git\+|\.git$/g, '')
  const rewrite = (file, from, text) =>
    mapProse(text, (prose) =>
      prose.replaceAll(/(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g, (_link, mark, label, link) => {
        const target = resolveLink(file, from, link)
        if (target !== undefined) return `${mark}[${label}](${target})`
        return repository === undefined
          ? label
          : `[${label}](${repository}/blob/HEAD/${posix.join(posix.dirname(file), link)})`
      })
    )

  for (const [file, address] of addresses) {
    if (file !== ERRORS) write(address, rewrite(file, address, read(file)))
  }
  const errorPages = addresses.has(ERRORS) ? splitErrors(rewrite(ERRORS, 'errors/index.md', read(ERRORS))) : []
  for (const { address, text } of errorPages) write(address, text)
  write(
    'index.md',
    createLandingPage((text) => rewrite('README.md', 'index.md', text))
  )

  const sorted = GROUPS.map(([id, text, patterns]) => {
    const own = patterns.flatMap((pattern) => documents.filter((file) => pattern.test(file) && addresses.delete(file)))
    const toItem = (file) => ({ text: LABELS[file] ?? findTitle(read(file)), address: toAddress(file) })
    return { id, text, items: own.map(toItem) }
  })
  return ORDER.map((id) => sorted.find((group) => group.id === id))
}

/** Splits the document of error codes into an index and a page per code. */
function splitErrors(text) {
  const pages = []
  const index = text.replaceAll(/^### `(\w+)`.*\n([^]*?)(?=^##|$(?![^]))/gm, (_section, code, body) => {
    pages.push({ address: `errors/${code}.md`, text: `# ${code}\n\n${body.trim()}\n\n[All error codes](./index.md)\n` })
    return `- [\`${code}\`](./${code}.md): ${findSummary(body)}\n`
  })
  return [{ address: 'errors/index.md', text: index }, ...pages]
}

/** Fills the landing page with the first sentence and the quick start of the README. */
function createLandingPage(rewrite) {
  const readme = read('README.md')
  const [quickStart] = readme.match(/^```(?:ts|js)\n[^]*?^```$/m)
  const [install] = readme.match(/^npm install express express-did-auth.*$/m)
  const parts = { NAME: manifest.name, SENTENCE: findSummary(readme), QUICK_START: quickStart, INSTALL: install }
  return rewrite(read('.site/landing.md').replaceAll(/%(\w+)%/g, (_mark, name) => parts[name]))
}
