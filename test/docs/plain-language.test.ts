import { describe, expect, it } from '@jest/globals'
import { Linter } from 'eslint'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../support/fixtures/documents.js'

// Configuration is JavaScript without types, so the compiler must not follow the paths.
const [rulePath, phrasesPath] = ['../../.config/plain-language.js', '../../.config/plain-documents.js'] as string[]
const { plainLanguage } = (await import(rulePath!)) as { plainLanguage: never }
const { findAvoidedPhrases } = (await import(phrasesPath!)) as { findAvoidedPhrases: (markdown: string) => string[] }

/** Returns the message ids that the rule reports for a source text. */
function lint(text: string): (string | undefined)[] {
  const config = { plugins: { plain: plainLanguage }, rules: { 'plain/plain-opening': 'error' } } as const
  return new Linter().verify(text, config).map(({ messageId }) => messageId)
}

describe('the lint rule on plain language', () => {
  it.each([
    ['/**', 'What is loaded first. */'].join(' '),
    '/**\n * Of a session. */',
    '// That a body may take.',
    '/* With a key. */'
  ])('reports a comment that opens without a noun or a verb: %j', (text) => expect(lint(text)).toEqual(['comment']))

  it.each([
    '/** Returns the session. */',
    '// Whether it is open.',
    '/** Time limit for a body. */',
    '// Input is text.'
  ])('accepts a comment with a subject or a verb: %j', (text) => expect(lint(text)).toEqual([]))

  it.each(["it('of a token', f)", 'describe(`by ${x}`, f)', "it.each([1])('with %i', f)", "test.each`a`('in b', f)"])(
    'reports a title that opens with a preposition: %s',
    (text) => expect(lint(text)).toEqual(['title'])
  )

  it('reports a title of more than 100 characters, and no other call', () => {
    expect(lint(`it('${'a'.repeat(100)}', f)`)).toEqual([])
    expect(lint(`it('${'a'.repeat(101)}', f)`)).toEqual(['length'])
    expect(lint("find('of a token')")).toEqual([])
  })
})

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
