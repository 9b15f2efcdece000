import { describe, expect, it } from '@jest/globals'
import { serverErrors } from '../../servers/http/server-error.js'
import * as clientErrors from '../../src/client/wire/error-codes.js'
import { errorStatuses, errorTexts } from '../../src/errors.js'
import { readDocument } from '../support/fixtures/documents.js'

const library = Object.entries(errorTexts).map(([code, text]) => [
  code,
  `${errorStatuses[code as keyof typeof errorTexts]} \`${text}\`. `
])
const client = Object.values(clientErrors).map(([code, text]) => [code, `"${text}" `])
const servers = Object.entries(serverErrors).map(([code, [status, text]]) => [code, `${status} \`${text}\`. `])

/** Pages with a chapter of codes, each with its codes and the beginnings of their texts. */
const chapters = [
  { file: 'src/guides/ERRORS.md', chapter: 'Library', codes: library },
  { file: 'src/client/ERRORS.md', chapter: 'Client', codes: client },
  { file: 'servers/ERRORS.md', chapter: 'Servers', codes: servers }
]

describe.each(chapters)('the page $file', ({ file, chapter, codes }) => {
  const [, text = ''] = readDocument(file).text.split(`\n## ${chapter}\n`)
  const sections = text.split(/^### /m).slice(1)

  it('has a heading for each code of the closed list, and no other', () => {
    const listed = codes.map(([code]) => `\`${code!}\``).sort()
    expect(sections.map((section) => section.split('\n')[0]).sort()).toEqual(listed)
  })

  it.each(codes)('states text, cause and remedy of %s', (code, beginning) => {
    const section = sections.find((one) => one.startsWith(`\`${code}\`\n`)) ?? ''
    const [, first = '', second = '', ...rest] = section.trimEnd().split('\n')
    expect(first).toContain(`${beginning}**Cause**: `)
    expect(first.indexOf(beginning)).toBe(0)
    expect(first).toMatch(/\*\*Cause\*\*: \S.{10,}\.$/)
    expect(second).toMatch(/^\*\*Remedy\*\*: \S.{10,}\.$/)
    expect(rest).toEqual([])
  })
})
