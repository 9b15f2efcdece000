import { describe, expect, it } from '@jest/globals'
import * as client from 'express-did-auth/client'
import * as codes from '../../src/client/error-codes.js'
import ts from 'typescript'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readDocument, root } from '../support/documents.js'
import { tableUnder } from '../support/readme.js'

const reference = readDocument('src/client/README.md')

type ErrorKind = readonly [code: string, text: string, isRetryable?: boolean]

describe('the chapter on clients', () => {
  it('names every code of errors, and whether it is retryable', () => {
    const expected = Object.entries(codes).map(([name, [code, , isRetryable = false]]: [string, ErrorKind]) => {
      expect(code).toBe(name)
      return [`\`${code}\``, isRetryable ? 'yes' : 'no']
    })
    const rows = tableUnder(reference, 'Errors of the client').map(([code, retryable]) => [code, retryable])
    expect(rows.sort()).toEqual(expected.sort())
  })

  it('names every option of the client, in their order', () => {
    const file = join(root, 'src/client/options.ts')
    const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ES2023)
    const options = source.statements
      .filter(ts.isInterfaceDeclaration)
      .find(({ name }) => name.text === 'DidAuthClientOptions')!
      .members.map((member) => member.name!.getText(source))
    const chapter = reference.prose.split(/^## /m).find((part) => part.startsWith('Clients\n'))!
    const [, table = ''] = chapter.split('| Option | Meaning |')
    const rows = table.split('\n\n')[0]!.split('\n').slice(2)
    const named = rows.flatMap((row) => [...row.split('|')[1]!.matchAll(/`(\w+)`/g)].map(([, name]) => name))
    expect(named).toEqual(options)
  })

  it('names every method of the client', () => {
    const members = Object.getOwnPropertyNames(client.DidAuthClient.prototype).filter((name) => name !== 'constructor')
    for (const name of members) expect(reference.prose).toMatch(new RegExp(`\`${name}[\`(]`))
  })

  it('tells what users are told to do by every error', () => {
    for (const [, text] of Object.values(codes)) {
      expect(text).toMatch(
        /^[A-Z][^.]+[.] (?:.*(?:try again|it again)|Sign in|Check|Tell|Send|Delete|Choose|.*Confirm).*[.]$/
      )
    }
  })
})
