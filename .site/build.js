/**
 * `npm run site` builds the documentation site in .cache/site/html. `npm run site -- serve` also serves it, and
 * `npm run site -- dev` serves the pages without a build and shows changes of the theme at once.
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { install } from '../.config/install.js'
import { pagesDir, rootDir } from './links.js'
import { findSummary, preparePages } from './pages.js'

const siteDir = join(rootDir, '.site')

/** Writes all pages, and the groups of the sidebar for the configuration of VitePress. @returns the groups */
async function prepare() {
  rmSync(pagesDir, { recursive: true, force: true })
  mkdirSync(pagesDir, { recursive: true })
  const groups = preparePages()
  const { writeApi } = await import('./api.js')
  groups
    .find(({ text }) => text === 'Reference')
    .items.push({ text: 'API', address: 'api/index.md', items: await writeApi() })
  writeFileSync(join(pagesDir, 'groups.json'), JSON.stringify(groups))
  return groups
}

/** Copies each page as Markdown next to its HTML, and lists all of them in llms.txt for language models. */
function writeMarkdown(groups, { pages, site, outDir }) {
  const read = (address) => readFileSync(join(pagesDir, address), 'utf8')
  const toLine = ({ text, address }) => `- [${text}](${address}): ${findSummary(read(address))}\n`
  const flatten = (items) => items.flatMap((item) => [item, ...(item.items ?? [])])
  const chapters = groups.map(({ text, items }) => ({ text, items: flatten(items) }))
  const listed = ['index.md', ...chapters.flatMap(({ items }) => items.map(({ address }) => address))]
  const others = pages.filter((address) => !listed.includes(address))
  const toItem = (address) => ({ text: read(address).match(/^# (.*)$/m)[1], address })
  chapters.push({ text: 'Error codes and examples', items: others.map(toItem) })

  for (const page of pages) cpSync(join(pagesDir, page), join(outDir, page))
  const body = chapters.map(({ text, items }) => `## ${text}\n\n${items.map(toLine).join('')}`).join('\n')
  writeFileSync(join(outDir, 'llms.txt'), `# ${site.title}\n\n> ${site.description}\n\n${body}`)
}

if ((await install()) && (await install('.site'))) {
  const groups = await prepare()
  const { build, createServer, resolveConfig, serve } = await import('vitepress')
  if (process.argv[2] === 'dev') {
    const server = await createServer(siteDir)
    await server.listen()
    server.printUrls()
  } else {
    await build(siteDir)
    writeMarkdown(groups, await resolveConfig(siteDir, 'build', 'production'))
    if (process.argv[2] === 'serve') await serve({ root: siteDir })
  }
} else process.exitCode = 1
