/**
 * `npm run site` builds the documentation site in .cache/site/html. `npm run site -- serve` also serves it, and
 * `npm run site -- dev` serves the pages without a build and shows changes of the theme at once.
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { install } from '../.config/install.js'
import { findSummary, pagesDir, preparePages, rootDir } from './pages.js'

const siteDir = join(rootDir, '.site')
const htmlDir = join(rootDir, '.cache/site/html')

/** Writes all pages and the sidebar, which the configuration of VitePress reads. */
async function prepare() {
  rmSync(pagesDir, { recursive: true, force: true })
  mkdirSync(pagesDir, { recursive: true })
  const groups = preparePages()
  const { writeApi } = await import('./api.js')
  const api = await writeApi()
  groups.find(({ id }) => id === 'reference').items.push(...api)
  writeFileSync(join(pagesDir, 'groups.json'), JSON.stringify(groups))
  return groups
}

/** Copies each page as Markdown next to its HTML, and lists them in llms.txt for language models. */
function writeMarkdown(groups, siteConfig) {
  for (const page of siteConfig.pages) cpSync(join(pagesDir, page), join(htmlDir, page))
  const read = (address) => readFileSync(join(pagesDir, address), 'utf8')
  const listed = new Set(groups.flatMap(({ items }) => items.map(({ address }) => address)))
  const others = siteConfig.pages
    .filter((address) => !listed.has(address) && address !== 'index.md')
    .map((address) => ({ text: read(address).match(/^# (.*)$/m)?.[1] ?? address, address }))
  const chapters = [...groups, { text: 'More', items: others }].map(
    ({ text, items }) =>
      `## ${text}\n\n${items.map((item) => `- [${item.text}](${item.address}): ${findSummary(read(item.address))}`).join('\n')}\n`
  )
  const { site } = siteConfig
  writeFileSync(join(htmlDir, 'llms.txt'), `# ${site.title}\n\n> ${site.description}\n\n${chapters.join('\n')}`)
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
