import { describe, expect, it } from '@jest/globals'
import { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { runMigrate, waitFor } from '../../../servers/tools/migrate.js'
import { freePort } from '../../support/faults/tcp-proxy.js'
import { runCommand } from '../../support/servers/command-line.js'

describe('the command migrate', () => {
  it('gives up with the reason if no database starts', async () => {
    const unavailable = new PostgresDatabase(`postgres://root:secret@127.0.0.1:${await freePort()}/auth`)
    const waiting = waitFor(unavailable, () => undefined, 1)
    await expect(waiting).rejects.toThrow('Cannot use the database (DATABASE_URL): the connection was refused')
    await expect(waiting).rejects.not.toThrow('secret')
    await unavailable.close()
  })

  it('requires a database, and one mode at a time', async () => {
    await expect(runCommand(runMigrate, [])).rejects.toThrow('No database is configured. Set DATABASE_URL.')
    await expect(runCommand(runMigrate, ['--check', '--print'])).rejects.toThrow(
      '--check and --print cannot be combined'
    )
  })
})
