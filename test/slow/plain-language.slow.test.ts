import { describe, expect, it } from '@jest/globals'
import { Linter } from 'eslint'

// Configuration is JavaScript without types, so the compiler must not follow the path.
const rulePath = '../../.config/plain-language.js' as string
const { plainLanguage } = (await import(rulePath)) as { plainLanguage: never }

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
