import { describe, expect, it } from '@jest/globals'
import * as client from 'express-did-auth/client'
import ts from 'typescript'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readDocument, root } from '../support/documents.js'
import { tableUnder } from '../support/readme.js'

const reference = readDocument('src/client/README.md')

describe('the chapter on clients', () => {
  it('names every class of errors, with its code and whether it is retryable', () => {
    const { DidAuthClientError, SessionEndedError, ...exported } = client
    const classes = Object.entries(exported).filter(([name]) => name.endsWith('Error'))
    const made = classes.map(([name, Kind]) => [name, new (Kind as new () => client.DidAuthClientError)()] as const)
    const all = [...made, ['SessionEndedError', new SessionEndedError('revoked')] as const]
    const expected = all.map(([name, error]) => {
      expect(error).toBeInstanceOf(DidAuthClientError)
      return [`\`${name}\``, `\`${error.code}\``, error.retryable ? 'yes' : 'no']
    })
    const rows = tableUnder(reference, 'Errors of the client').map(([name, code, retryable]) => [name, code, retryable])
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
    const errors = Object.entries(client)
      .filter(([name]) => /^(?!DidAuthClient|SessionEnded).*Error$/.test(name))
      .map(([, Kind]) => new (Kind as new () => client.DidAuthClientError)())
    const endings = (['expired', 'revoked', 'reused', 'loggedOut'] as const).map(
      (why) => new client.SessionEndedError(why)
    )
    for (const { userMessage } of [...errors, ...endings]) {
      expect(userMessage).toMatch(/^[A-Z][^.]+[.] (?:.*try again|Sign in|Check|Tell|.*Confirm).*[.]$/)
    }
  })
})
