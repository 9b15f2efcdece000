import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pagesDir, rootDir } from '../paths.js'

const { name, description } = JSON.parse(readFileSync(join(rootDir, 'package.json'), 'utf8'))
const groups = JSON.parse(readFileSync(join(pagesDir, 'groups.json'), 'utf8'))
const toLink = (address) => `/${address.replace(/(?:index)?\.md$/, '')}`
/** Returns the entry of a page in the sidebar. The pages below it are collapsed. */
const toItem = ({ text, address, items }) => ({
  text,
  link: toLink(address),
  ...(items && { collapsed: true, items: items.map(toItem) })
})

/** Returns the anchor that GitHub gives to a heading, so that links work in both places. */
const slugify = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w -]/g, '')
    .replaceAll(' ', '-')

/** Options of the search. The browser receives the source text of these functions, so they use no other names. */
const miniSearch = {
  options: {
    /** Returns the words, and for a code such as `ERR_KEY` also its parts. */
    tokenize: (text) =>
      (text.match(/[\p{L}\p{N}_]+/gu) ?? []).flatMap((word) => [...new Set([word, ...word.split('_')])]),
    /** Returns a word in the singular, or nothing for words that every page contains. */
    processTerm: (term) => {
      const word = term.toLowerCase()
      const isCommon = /^(?:|an?|and|are|by|do|does|for|from|how|i|if|in|is|it|my|of|on|or|the|to|what|why|with)$/.test(
        word
      )
      return isCommon ? null : word.replace(/(?<=[a-z]{3}[^su])s$/, '')
    }
  },
  searchOptions: {
    tokenize: (text) => text.match(/[\p{L}\p{N}_]+/gu) ?? [],
    fuzzy: (term) => (term.length > 4 ? 0.2 : 0),
    boost: { title: 4, titles: 2, text: 1 },
    /** Returns the weight of a section: guides come before the API and pages for contributors. */
    boostDocument: (id) => (/\/(?:api|code|test|architecture|changelog|contributing)\b/.test(id) ? 0.3 : 1)
  }
}

// VitePress requires a default export.
export { site as default }
const site = {
  title: name,
  description,
  lang: 'en',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  base: process.env.SITE_BASE ?? '/',
  srcDir: pagesDir,
  outDir: join(rootDir, '.cache/site/html'),
  cacheDir: join(rootDir, '.cache/site/vite'),
  markdown: {
    anchor: { slugify },
    linkify: false,
    languageAlias: { caddy: 'nginx', haproxy: 'ini', cjs: 'js' },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' }
  },
  themeConfig: {
    nav: [
      { text: 'Start', link: '/introduction' },
      { text: 'Reference', link: '/reference/' },
      { text: 'Errors', link: '/errors/' }
    ],
    sidebar: groups.map(({ text, items }) => ({ text, collapsed: false, items: items.map(toItem) })),
    outline: [2, 3],
    search: { provider: 'local', options: { miniSearch } }
  }
}
