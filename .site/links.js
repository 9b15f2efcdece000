/** Rewrites the links of documents, so that they lead to pages of the site. */
import { cpSync, existsSync, readFileSync, statSync } from 'node:fs'
import { extname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

export const rootDir = fileURLToPath(new URL('..', import.meta.url))
/** Folder of the prepared pages, which VitePress reads. */
export const pagesDir = join(rootDir, '.cache/site/pages')
export const read = (file) => readFileSync(join(rootDir, file), 'utf8')
export const manifest = JSON.parse(read('package.json'))

/** Matches code blocks, which stay unchanged, and links. */
const CODE_OR_LINK = /^ *```[^]*?^ *```$|(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/gm
/** Folders whose files become pages if a document links to them. */
const SHOWN = /^(?:examples|servers\/docker|servers\/monitoring)\//
/** Heading of a table whose first cell is empty. Screen readers need a name of the column. */
const UNNAMED_COLUMN = /^\| +\|(?=.*\n\| *-)/gm

/**
 * Returns the Markdown of a document for the page at `address`. A link to a file that the site omits leads to the
 * repository, if package.json names it; else only its label remains. `findAddress` returns the page of a document and
 * an anchor, and `write` writes the page of a linked file.
 */
export function rewriteLinks(file, address, text, findAddress, write) {
  const rewrite = (match, mark, label, target) => {
    if (target === undefined || /^(?:\w+:|#)/.test(target)) return match
    const [path, anchor] = target.split('#')
    const linked = posix.join(posix.dirname(file), path)
    const page = findAddress(linked, anchor) ?? addFile(linked, write)
    if (page !== undefined) return `${mark}[${label}](${posix.relative(posix.dirname(address), page)})`
    const repository = manifest.repository?.url.replace(/^git\+|\.git$/g, '')
    return repository === undefined ? label : `[${label}](${repository}/blob/HEAD/${linked})`
  }
  const named = text.replaceAll(UNNAMED_COLUMN, '| <span class="visually-hidden">Property</span> |')
  return named.replaceAll(CODE_OR_LINK, rewrite)
}

/** Adds a linked image or file. @returns its address; undefined if the site omits it */
function addFile(file, write) {
  const path = join(rootDir, file)
  if (!existsSync(path) || statSync(path).isDirectory()) return undefined
  if (['.svg', '.webp', '.png'].includes(extname(file))) {
    cpSync(path, join(pagesDir, file))
    return file
  }
  if (!SHOWN.test(file)) return undefined
  // A server would read a dot as the ending of a file.
  const address = `code/${file.replaceAll('.', '-')}.md`.toLowerCase()
  const block = `\`\`\`\`${extname(file).slice(1) || 'docker'}\n${read(file)}\`\`\`\``
  write(address, `---\nsearch: false\n---\n\n# ${posix.basename(file)}\n\n\`${file}\`\n\n${block}\n`)
  return address
}
