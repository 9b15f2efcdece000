import { describe, expect, it } from '@jest/globals'
import { resolve } from 'node:path'
import { ownCommand } from '../../../servers/config/own-command.js'

describe('ownCommand', () => {
  it.each([
    ['/app/node_modules/.bin/express-did-auth-servers', 'npx express-did-auth-servers keys new'],
    ['/home/ann/.npm/_npx/1f/node_modules/.bin/express-did-auth', 'npx express-did-auth keys new'],
    ['/usr/local/bin/express-did-auth-servers', 'express-did-auth-servers keys new'],
    [resolve('servers/dist/bin.js'), 'node servers/dist/bin.js keys new'],
    [resolve('../servers/dist/bin.js'), 'node ../servers/dist/bin.js keys new']
  ])('of %s is %s', (script, command) => {
    expect(ownCommand('keys new', script)).toBe(command)
  })
})
