/** `npm run site` builds the documentation site in .cache/site/html. `npm run site -- serve` also serves it. */
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { install } from '../.config/install.js'
import { pagesDir, rootDir } from './links.js'
import { findSummary, preparePages } from './pages.js'

const siteDir = join(rootDir, '.site')

/** Writes all pages, and the groups of the sidebar for the configuration of VitePress. @returns the groups */
async function prepare() {
  rmSync(pagesDir, { recursive: true, force: true })
  const groups = preparePages()
  const { writeApi } = await import('./api.js')
  const reference = groups.find(({ text }) => text === 'Reference')
  reference.items.push({ text: 'API', link: '/api/index.md', collapsed: true, items: await writeApi() })
  writeFileSync(join(pagesDir, 'groups.json'), JSON.stringify(groups))
  return groups
}

/** Copies each page as Markdown next to its HTML, and lists all of them in llms.txt for language models. */
function writeMarkdown(groups, { pages, site, outDir }) {
  const others = new Set(pages)
  const toLines = ({ text, link, items = [] }) => {
    const address = link.slice(1)
    others.delete(address)
    const firstParagraph = findSummary(readFileSync(join(pagesDir, address), 'utf8'))
    const summary = link.startsWith('/api/') ? 'types and functions' : firstParagraph.split(/(?<=\.) /, 2).join(' ')
    return `- [${text}](${address}): ${summary}\n${items.map(toLines).join('')}`
  }
  const chapters = groups.map(({ text, items }) => `## ${text}\n\n${items.map(toLines).join('')}`)
  const rest = [...others].map((address) => toLines({ text: address.replace('.md', ''), link: `/${address}` }))
  const parts = [`# ${site.title}`, `> ${site.description}`, ...chapters, `## Single pages\n\n${rest.join('')}`]
  writeFileSync(join(outDir, 'llms.txt'), parts.join('\n\n'))
  for (const page of pages) cpSync(join(pagesDir, page), join(outDir, page))
}

if ((await install()) && (await install('.site'))) {
  const groups = await prepare()
  const { build, resolveConfig, serve } = await import('vitepress')
  await build(siteDir)
  writeMarkdown(groups, await resolveConfig(siteDir, 'build', 'production'))
  if (process.argv[2] === 'serve') await serve({ root: siteDir })
} else process.exitCode = 1
