import { describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../support/fixtures/documents.js'

// Configuration is JavaScript without types, so the compiler must not follow the path.
const phrasesPath = '../../.config/plain-documents.js' as string
const { findAvoidedPhrases } = (await import(phrasesPath)) as { findAvoidedPhrases: (markdown: string) => string[] }

describe('the check of phrases in documents', () => {
  it('finds each avoided phrase, with its line and better words', () => {
    const text = '# Title\n\nTokens are kept\nbeside it. Then try once\nmore.\n\n| Cell |\n|---|\n| a good token |\n'
    expect(findAvoidedPhrases(text)).toEqual([
      '4: "beside": write next to, in addition to, compared with',
      '4: "once more": write again',
      '9: "good": write valid'
    ])
  })

  it.each([
    ['a code block', 'Text.\n\n```sh\necho alone # the other end\n```\n'],
    ['an indented code block', '- Item:\n\n  ```ts\n  const ours = 1\n  ```\n'],
    ['code in a line', 'The field `alone` is text.'],
    ['the target of a link', 'See [goods](pages/good.md#ours).'],
    ['longer words', 'Besides, goods and standalone programs work.']
  ])('ignores %s', (_name, text) => expect(findAvoidedPhrases(text)).toEqual([]))
})

describe('the documents', () => {
  const files = ['examples', 'servers', 'src', 'test']
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => `${folder}/${file}`)
    )
    .concat(readdirSync(root))
    .filter((file) => file.endsWith('.md') && !/(?:^|\/)(?:node_modules|dist)\//.test(file))

  it('are found', () => expect(files).toEqual(expect.arrayContaining(['README.md', 'src/README.md'])))

  it.each(files)('have no phrase to avoid: %s', (file) => {
    const text = readFileSync(join(root, file), 'utf8')
    // A command generates the tables of this page from test/bench/figures.json.
    const prose = file === 'test/bench/README.md' ? text.replaceAll(/^\|.*$/gm, '') : text
    expect(findAvoidedPhrases(prose).map((message) => `${file}:${message}`)).toEqual([])
  })
})
