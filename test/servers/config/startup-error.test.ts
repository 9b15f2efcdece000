import { describe, expect, it } from '@jest/globals'
import { resolve } from 'node:path'
import { ownCommand, StartError, startStep } from '../../../servers/config/startup-error.js'
import { describeFailure } from '../../../servers/config/variable-names.js'

describe('startStep', () => {
  it.each([
    ['EACCES', 'permission denied'],
    ['EROFS', 'the disk is read-only'],
    ['ENOSPC', 'the disk is full'],
    ['SQLITE_NOTADB', 'the file is not an SQLite database'],
    ['SQLITE_READONLY_DIRECTORY', 'it is read-only'],
    ['SQLITE_READONLY_DBMOVED', 'its file or its write-ahead log was moved or deleted'],
    ['SQLITE_STRANGE_THING', 'SQLITE_STRANGE_THING'],
    ['ESTRANGE', 'ESTRANGE']
  ])('explains %s as: %s', (code, reason) => {
    const step = (): void => {
      startStep('Cannot use it', () => {
        throw Object.assign(new Error('open /somewhere'), { code })
      })
    }
    expect(step).toThrow(`Cannot use it: ${reason}`)
  })

  it('reports the first line of an error without a code', () => {
    const failWith = (message: string) => () => {
      startStep('Cannot use it', () => {
        throw new Error(message)
      })
    }
    expect(failWith('one line\nand more')).toThrow(/^Cannot use it: one line$/)
  })

  it('keeps the install command of a missing package, although its cause has a code', () => {
    const cause = Object.assign(new Error('Cannot find module'), { code: 'MODULE_NOT_FOUND' })
    const step = (): void => {
      startStep('Cannot use it', () => {
        throw new Error('it needs the package better-sqlite3: npm install better-sqlite3', { cause })
      })
    }
    expect(step).toThrow('Cannot use it: it needs the package better-sqlite3: npm install better-sqlite3')
  })

  it('rethrows a StartError unchanged', () => {
    const sentence = new StartError('The file is empty')
    expect(() =>
      startStep('Cannot use it', () => {
        throw sentence
      })
    ).toThrow(sentence)
  })
})

describe('describeFailure', () =>
  it('never contains a stack', () => {
    expect(describeFailure(new StartError('No.'))).toBe('No.')
    expect(describeFailure(new TypeError('nothing works'), 'copy')).toBe('copy failed: nothing works')
    expect(describeFailure('nothing', 'auth')).toBe('auth failed: nothing')
  }))

describe('ownCommand', () =>
  it.each([
    ['/app/node_modules/.bin/express-did-auth-servers', 'npx express-did-auth-servers keys new'],
    ['/home/ann/.npm/_npx/1f/node_modules/.bin/express-did-auth', 'npx express-did-auth keys new'],
    ['/usr/local/bin/express-did-auth-servers', 'express-did-auth-servers keys new'],
    [resolve('servers/dist/bin.js'), 'node servers/dist/bin.js keys new'],
    [resolve('../servers/dist/bin.js'), 'node ../servers/dist/bin.js keys new']
  ])('maps the script %s to %s', (script, command) => expect(ownCommand('keys new', script)).toBe(command)))
