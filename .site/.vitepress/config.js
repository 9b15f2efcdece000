import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { manifest, pagesDir, rootDir } from '../links.js'

/** Returns the anchor that GitHub gives to a heading, so that links work in both places. */
const slugify = (heading) => heading.toLowerCase().replaceAll(/[^\w-]/g, (character) => (character === ' ' ? '-' : ''))

/** Lets long names of code break between their words, so that tables of options fit. */
function breakNames(md) {
  const { code_inline: render } = md.renderer.rules
  md.renderer.rules.code_inline = (...parts) => render(...parts).replaceAll(/(?<=[a-z])(?=[A-Z])|(?<=[A-Z]_)/g, '<wbr>')
}

/** Options of the search. The browser receives the source text of these functions, so they use no other names. */
const miniSearch = {
  options: {
    // A code such as `ERR_KEY` is one word.
    tokenize: (text) => text.match(/[\p{L}\p{N}_]+/gu) ?? [],
    /** Returns a word in the singular, or nothing for a word that every page contains. */
    processTerm: (term) => {
      const word = term.toLowerCase()
      const isCommon = /^(?:an?|and|are|do|does|for|from|how|i|if|in|is|it|my|of|on|or|the|to|what|why)$/.test(word)
      return isCommon ? null : word.replace(/(?<=[a-z]{2}[^su])s$/, '')
    }
  },
  searchOptions: {
    fuzzy: (term) => (term.length > 4 ? 0.2 : 0),
    boost: { title: 4, titles: 2, text: 1 },
    // Long headings are about as relevant as short ones.
    bm25: { k: 1.2, b: 0.3, d: 0.5 },
    /** Returns the weight of a section. The glossary comes first; lists, the API and this project come last. */
    boostDocument: (id, _term, { titles }) => {
      if (/\/(?:api|test|architecture|changelog|contributing)\b|\/errors\b(?!\/\w)|^\/#/.test(id)) return 0.3
      if (/\/glossary\b/.test(id)) return 2
      return (titles.length === 0 ? 1.5 : 1) * (/\/(?:servers|security)\b/.test(id) ? 0.4 : 1)
    }
  }
}

export default {
  title: manifest.name,
  description: manifest.description,
  lang: 'en',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  // Path of the site at its host, such as `/express-did-auth/`.
  base: process.env.SITE_BASE ?? '/',
  transformHead: ({ page, siteData: { base } }) => [
    ['link', { rel: 'alternate', type: 'text/markdown', href: base + page }]
  ],
  srcDir: pagesDir,
  outDir: join(rootDir, '.cache/site/html'),
  cacheDir: join(rootDir, '.cache/site/vite'),
  markdown: {
    anchor: { slugify },
    config: breakNames,
    linkify: false,
    languageAlias: { caddy: 'nginx', haproxy: 'ini', cjs: 'js', cfg: 'ini' },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' }
  },
  themeConfig: {
    nav: [
      { text: 'Start', link: '/introduction' },
      { text: 'Guides', link: '/guides/' },
      { text: 'Reference', link: '/reference/' },
      { text: 'Errors', link: '/errors/' }
    ],
    sidebar: JSON.parse(readFileSync(join(pagesDir, 'groups.json'), 'utf8')),
    outline: [2, 3],
    docFooter: { prev: false, next: false },
    search: { provider: 'local', options: { miniSearch } }
  }
}
