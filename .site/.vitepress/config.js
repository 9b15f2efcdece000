import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pagesDir, rootDir } from '../pages.js'

const { name, description } = JSON.parse(readFileSync(join(rootDir, 'package.json'), 'utf8'))
const groups = JSON.parse(readFileSync(join(pagesDir, 'groups.json'), 'utf8'))
const toLink = (address) => `/${address.replace(/(?:index)?\.md$/, '')}`

/** Returns the anchor that GitHub gives to a heading, so that links work in both places. */
const slugify = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w -]/g, '')
    .replaceAll(' ', '-')

// VitePress requires a default export.
export { site as default }
const site = {
  title: name,
  description,
  lang: 'en',
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
    sidebar: groups.map(({ text, items }) => ({
      text,
      collapsed: false,
      items: items.map((item) => ({ text: item.text, link: toLink(item.address) }))
    })),
    outline: [2, 3],
    search: {
      provider: 'local',
      options: {
        miniSearch: {
          options: {
            /** Words, and for codes such as `ERR_KEY` also their parts. */
            tokenize: (text) => text.match(/[\p{L}\p{N}_]+/gu) ?? []
          }
        }
      }
    }
  }
}
