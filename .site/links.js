/** Rewrites the links of documents, so that they lead to pages of the site. */
import { cpSync, existsSync, readFileSync, statSync } from 'node:fs'
import { extname, join, posix } from 'node:path'
import { pagesDir, rootDir } from './paths.js'

const LINK = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g
const CODE_BLOCK = /(^ *```[^]*?^ *```$)/m
const IMAGES = ['.svg', '.webp', '.png']
/** Folders whose files become pages if a document links to them. */
const SHOWN = /^(?:examples|servers\/docker|servers\/monitoring)\//
const LANGUAGES = { '.mjs': 'js', '.cjs': 'js', '.cfg': 'ini', '': 'docker' }

/**
 * Returns a text with links to pages. A link to a file that the site does not contain leads to the repository, if
 * package.json names it; else only its label remains.
 *
 * @param {string} file - path of the document from the root of the repository
 * @param {string} address - page for which the links are
 * @param {string} text - Markdown
 * @param findAddress - receives the path of a document and an anchor, and returns its page or undefined
 * @param write - writes the page of a linked file
 */
export function rewriteLinks(file, address, text, findAddress, write) {
  const { repository } = JSON.parse(readFileSync(join(rootDir, 'package.json'), 'utf8'))
  const rewrite = (link, mark, label, target) => {
    if (/^(?:\w+:|#)/.test(target)) return link
    const [path, anchor] = target.split('#')
    const linked = posix.join(posix.dirname(file), path)
    const page = findAddress(linked, anchor) ?? addFile(linked, write)
    if (page !== undefined) return `${mark}[${label}](${toRelative(address, page)})`
    if (repository === undefined) return label
    return `[${label}](${repository.url.replace(/^git\+|\.git$/g, '')}/blob/HEAD/${linked})`
  }
  const parts = text.split(CODE_BLOCK)
  return parts.map((part, index) => (index % 2 === 0 ? part.replaceAll(LINK, rewrite) : part)).join('')
}

function toRelative(from, to) {
  const path = posix.relative(posix.dirname(from), to)
  return path.startsWith('.') ? path : `./${path}`
}

/** Adds an image or the code of a linked file to the site. @returns its address; undefined if the site omits the file */
function addFile(file, write) {
  const path = join(rootDir, file)
  if (!existsSync(path) || statSync(path).isDirectory()) return undefined
  if (IMAGES.includes(extname(file))) {
    cpSync(path, join(pagesDir, file))
    return file
  }
  if (!SHOWN.test(file)) return undefined
  // A server would read a dot as the ending of a file.
  const address = `code/${file.replaceAll('.', '-')}.md`.toLowerCase()
  const block = `\`\`\`\`${LANGUAGES[extname(file)] ?? extname(file).slice(1)}\n${readFileSync(path, 'utf8')}\`\`\`\`\n`
  write(
    address,
    `---\nsearch: false\nprev: false\nnext: false\n---\n\n# ${posix.basename(file)}\n\n\`${file}\`\n\n${block}`
  )
  return address
}
