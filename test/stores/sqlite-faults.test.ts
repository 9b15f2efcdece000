import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { renameSync, rmSync } from 'node:fs'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { sqliteDialect, type Dialect } from '../../src/stores/sql/dialect.js'
import { collectVerbs } from '../../src/stores/sql/query.js'
import * as sessionVerbs from '../../src/stores/sql/session-verbs.js'
import { GroupCommit } from '../../src/stores/sqlite/serve-sqlite.js'
import type { ThreadDatabase } from '../../src/stores/sqlite/serve-sqlite.js'
import type { ThreadRole } from '../../src/stores/sqlite/sqlite-thread.js'
import {
  createCharge,
  hashToken,
  createRotation,
  service,
  createSession,
  createUse
} from '../../src/testing/store-case.js'
import { engine, sqliteFile, type SqliteFile } from '../support/servers/sqlite-stores.js'
import { startedWorkers, useThreads } from '../support/servers/start-sqlite-worker.js'

// The tests end threads, and lock the database from outside.
useThreads()

const sessionId = 'session-a'

/**
 * Ends the newest thread of a role with an exception, like a crash. `terminate` during a failing statement would let
 * better-sqlite3 abort the whole process. A slow write starts a reading thread.
 */
async function terminate(role: ThreadRole = 'writer'): Promise<void> {
  const { worker } = startedWorkers.findLast(({ settings }) => (settings as ThreadDatabase).role === role)!
  const ended = new Promise((resolve) => worker.once('exit', resolve))
  worker.postMessage('no JSON')
  await ended
}

describe(`a SQLite store by ${engine}`, () => {
  let files: SqliteFile
  beforeEach(() => {
    files = sqliteFile()
  })
  afterEach(() => files.remove())

  describe('a closed store', () => {
    it('rejects every verb, and may be closed twice', async () => {
      const store = files.store()
      await Promise.all([store.close(), store.close()])
      await store.close()
      for (const verb of [
        store.ping(),
        store.createSession(createSession('a')),
        store.findSession(service, sessionId),
        store.consumeChallenge(createUse())
      ]) {
        await expect(verb).rejects.toThrow('the store is closed')
      }
    })

    it('finishes earlier calls first', async () => {
      const store = files.store()
      await store.createSession(createSession('a'))
      const earlierCalls = Promise.all([
        store.chargeQuota(createCharge()),
        store.rotateRefreshToken(createRotation('a', 0, 1))
      ])
      await store.close()
      expect(await earlierCalls).toEqual([expect.objectContaining({ count: 1 }), 'rotate'])
      expect((await files.store().findSession(service, sessionId))?.refreshTokenHash).toBe(hashToken('a', 1))
    })
  })

  describe('whose thread ends', () => {
    it('rejects open calls, and continues in another thread with all acknowledged writes', async () => {
      const store = files.store()
      await store.createSession(createSession('a'))
      // The lock delays the response to the verb.
      const other = files.inspect()
      other.exec('BEGIN IMMEDIATE')
      const unanswered = store.createSession(createSession('b'))
      await new Promise(setImmediate)
      const ended = expect(unanswered).rejects.toThrow('is not valid JSON')
      await terminate()
      await ended
      other.exec('COMMIT')
      expect(await store.rotateRefreshToken(createRotation('a', 0, 1))).toBe('rotate')
      await store.createSession(createSession('c'))
      expect(
        (await store.listSessions(service, createSession('a').did, 1_800_000_000)).map((session) => session.sessionId)
      ).toEqual(['session-c', 'session-a'])
    })

    it('reports the end of the thread if there is no other reason', async () => {
      const store = files.store()
      const ended = expect(store.ping()).rejects.toThrow('the thread of the SQLite store has ended')
      // The thread has not started yet, so no statement is running.
      await startedWorkers.at(-1)!.worker.terminate()
      await ended
    })

    it('reports why it cannot restart, and works when it can', async () => {
      const store = files.store()
      await store.createSession(createSession('a'))
      await terminate()
      renameSync(files.folder, `${files.folder}-away`)
      await expect(store.ping()).rejects.toMatchObject({ code: 'SQLITE_READONLY_DBMOVED' })
      renameSync(`${files.folder}-away`, files.folder)
      await store.ping()
      expect(await store.findSession(service, sessionId)).toBeDefined()
    })

    it('continues after its reading thread ends', async () => {
      const store = files.store()
      const readWhileWriting = () => Promise.all([store.ping(), store.findSession(service, sessionId)])
      await readWhileWriting()
      await terminate('reader')
      await store.createSession(createSession('a'))
      expect(await readWhileWriting()).toMatchObject([undefined, { sessionId }])
    })

    it('can be closed', async () => {
      const store = files.store()
      await store.ping()
      await terminate()
      await store.close()
    })
  })

  describe('whose files are moved or deleted', () => {
    const moved = { code: 'SQLITE_READONLY_DBMOVED', message: expect.stringContaining('is no longer at') as unknown }

    it.each(['', '-wal', '-shm'])(
      'writes nothing without auth.db%s, is not ready, and continues to read',
      async (suffix) => {
        const store = files.store()
        await store.createSession(createSession('a'))
        await store.findSession(service, sessionId)
        rmSync(files.file + suffix)
        await expect(store.createSession(createSession('b'))).rejects.toMatchObject(moved)
        await expect(store.rotateRefreshToken(createRotation('a', 0, 1))).rejects.toMatchObject(moved)
        await expect(store.consumeChallenge(createUse())).rejects.toMatchObject(moved)
        await expect(store.ping()).rejects.toMatchObject(moved)
        expect(await store.findSession(service, sessionId)).toMatchObject({ refreshTokenHash: hashToken('a', 0) })
      }
    )

    it('works again after the folder is restored', async () => {
      const store = files.store()
      await store.createSession(createSession('a'))
      renameSync(files.folder, `${files.folder}-moved`)
      await expect(store.createSession(createSession('b'))).rejects.toMatchObject(moved)
      renameSync(`${files.folder}-moved`, files.folder)
      expect(await store.rotateRefreshToken(createRotation('a', 0, 1))).toBe('rotate')
    })

    it('opens no other file in place of the first', async () => {
      const store = files.store()
      // Keeps the inode of the deleted file in use.
      files.inspect()
      await terminate()
      rmSync(files.file)
      await files.store().close()
      await expect(store.ping()).rejects.toMatchObject(moved)
    })

    it('keeps using its file if the process changes its working directory', async () => {
      const before = process.cwd()
      process.chdir(files.folder)
      const store = sqliteStore('auth.db')
      process.chdir(before)
      await store.createSession(createSession('a'))
      await store.close()
      expect(files.rows('SELECT session_id FROM did_auth_sessions')).toEqual([{ session_id: sessionId }])
    })
  })

  describe('whose file another process writes', () => {
    it('waits, and reads and counts quotas in the meantime', async () => {
      const store = files.store()
      await store.createSession(createSession('a'))
      const other = files.inspect()
      other.exec('BEGIN IMMEDIATE')
      let isCreated = false
      const created = store.createSession(createSession('b')).then(() => (isCreated = true))
      for (let round = 0; round < 20; round += 1) {
        await store.findSession(service, sessionId)
        expect((await store.chargeQuota(createCharge())).count).toBe(round + 1)
      }
      expect(isCreated).toBe(false)
      other.exec('COMMIT')
      await created
      expect(await store.findSession(service, 'session-b')).toBeDefined()
    })

    it('rejects after 4 s with SQLITE_BUSY, and works again afterwards', async () => {
      await files.store().close()
      const other = files.inspect()
      const connection = files.inspect()
      const outcomes: unknown[] = []
      const served = { verbs: collectVerbs<Dialect>(sessionVerbs), dialect: sqliteDialect }
      const group = new GroupCommit(connection, served, ([, result, failure]) => outcomes.push(failure?.code ?? result))
      other.exec('BEGIN IMMEDIATE')
      // A request that waited too long in the application's thread is rejected after the first attempt.
      group.add([1, 'createSession', createSession('a'), false], performance.now() - 4_000)
      await group.run(() => undefined)
      other.exec('COMMIT')
      group.add([2, 'createSession', createSession('a'), false], performance.now())
      await group.run(() => undefined)
      expect(outcomes).toEqual([expect.stringMatching('^SQLITE_BUSY'), 0])
    })
  })
})
