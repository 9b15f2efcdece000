import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { openDatabase, type SqliteFile } from '../../servers/shared/content/database.js'
import { GroupCommit } from '../../servers/shared/content/group-commit.js'
import { ServerError } from '../../servers/shared/http/server-error.js'

let folder: string
let database: SqliteFile
let commits: GroupCommit
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'did-auth-commit-'))
  database = openDatabase(join(folder, 'a.db'))
  database.exec('CREATE TABLE notes (text TEXT NOT NULL UNIQUE)')
  commits = new GroupCommit(database)
})
afterEach(() => {
  database.close()
  rmSync(folder, { recursive: true })
})

const note = (text: string): string => {
  database.prepare('INSERT INTO notes VALUES (?)').run(text)
  return text
}
/** As another connection sees them: what is committed. */
function committed(): string[] {
  const other = openDatabase(join(folder, 'a.db'))
  try {
    return other.prepare<[], string>('SELECT text FROM notes ORDER BY rowid').pluck().all()
  } finally {
    other.close()
  }
}
/** Leaves room for so many more pages. */
function limitPages(more: number): void {
  const pages = database.pragma('page_count', { simple: true }) as number
  database.pragma(`max_page_count = ${pages + more}`)
}
const big = (letter: string, bytes = 100_000): string => letter.repeat(bytes)

async function outcomesOf(writes: Promise<unknown>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(writes)
  return settled.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as unknown)))
}

describe('GroupCommit', () => {
  it('answers what a write answers, when it is committed and not before', async () => {
    let isAnswered = false
    const written = commits.write(() => note('a')).finally(() => (isAnswered = true))
    await Promise.resolve()
    expect([isAnswered, committed()]).toEqual([false, []])
    expect(await written).toBe('a')
    expect(committed()).toEqual(['a'])
  })

  it('commits the writes of one round together, in their order, and answers in that order', async () => {
    const order: string[] = []
    const writes = ['a', 'b', 'c'].map((text) =>
      commits
        .write(() => {
          expect(committed()).toEqual([])
          return note(text)
        })
        .then((text) => order.push(text))
    )
    await Promise.all(writes)
    expect(order).toEqual(['a', 'b', 'c'])
    expect(committed()).toEqual(['a', 'b', 'c'])
  })

  it('sees in a write what earlier writes of the round did', async () => {
    const count = (): unknown => database.prepare('SELECT count(*) FROM notes').pluck().get()
    expect(await Promise.all([commits.write(() => note('a')), commits.write(count)])).toEqual(['a', 1])
  })

  it('undoes a write that throws, wholly, and leaves the others', async () => {
    const failure = new Error('no')
    const writes = [
      commits.write(() => note('a')),
      commits.write(() => {
        note('b')
        note('c')
        throw failure
      }),
      commits.write(() => note('d'))
    ]
    const outcomes = await outcomesOf(writes)
    expect(outcomes).toEqual(['a', failure, 'd'])
    expect(outcomes[1]).toBe(failure)
    expect(committed()).toEqual(['a', 'd'])
  })

  it('refuses with ERR_STORE a write that the database refuses, and leaves the others', async () => {
    const outcomes = await outcomesOf([
      commits.write(() => note('a')),
      commits.write(() => note('a')),
      commits.write(() => note('b'))
    ])
    expect(outcomes).toMatchObject(['a', { name: 'DidAuthError', code: 'ERR_STORE' }, 'b'])
    expect(committed()).toEqual(['a', 'b'])
  })

  it('passes on what a write throws, also what is no error', async () => {
    const full = new ServerError('ERR_STORAGE_FULL', { detail: '5 of 5 bytes' })
    const outcomes = await outcomesOf([
      commits.write(() => {
        throw full
      }),
      commits.write(() => {
        // eslint-disable-next-line @typescript-eslint/only-throw-error -- a write may throw anything
        throw 'a string'
      })
    ])
    expect(outcomes[0]).toBe(full)
    expect(outcomes[1]).toBe('a string')
  })

  it('commits a write that was asked for within another in a round of its own', async () => {
    let inner: Promise<string> | undefined
    await commits.write(() => {
      inner = commits.write(() => note('inner'))
      return note('outer')
    })
    expect(committed()).toEqual(['outer'])
    expect(await inner).toBe('inner')
    expect(committed()).toEqual(['outer', 'inner'])
  })

  it('runs the writes beside one that throws once more, and each is there once', async () => {
    let runs = 0
    const good = commits.write(() => {
      runs += 1
      return note('good')
    })
    const bad = commits.write(() => {
      note('bad')
      throw new Error('no')
    })
    await expect(bad).rejects.toThrow('no')
    expect(await good).toBe('good')
    expect(committed()).toEqual(['good'])
    expect(runs).toBe(2)
  })

  it('refuses every write once the database is closed, and throws nowhere else', async () => {
    database.close()
    const late = [commits.write(() => 'a'), commits.write(() => 'b')]
    for (const write of late) await expect(write).rejects.toThrow('The database connection is not open')
  })

  it('lets a write have transactions of its own', async () => {
    const inner = database.transaction((text: string) => {
      note(text)
      if (text === 'b') throw new Error('no')
    })
    await commits.write(() => {
      inner('a')
      expect(() => {
        inner('b')
      }).toThrow('no')
      inner('c')
    })
    expect(committed()).toEqual(['a', 'c'])
  })

  it('refuses with ERR_STORAGE_FULL what the disk has no room for; nothing is half-written', async () => {
    limitPages(0)
    const outcomes = await outcomesOf([
      commits.write(() => note(big('a'))),
      commits.write(() => {
        note('small')
        note(big('b'))
      })
    ])
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({ name: 'ServerError', code: 'ERR_STORAGE_FULL', status: 507 })
    expect(committed()).toEqual([])
    expect(database.inTransaction).toBe(false)
  })

  it('goes on when there is room again', async () => {
    limitPages(0)
    await expect(commits.write(() => note(big('a')))).rejects.toMatchObject({ code: 'ERR_STORAGE_FULL' })
    database.pragma('max_page_count = 1073741823')
    expect(await commits.write(() => note(big('a', 10)))).toBe('aaaaaaaaaa')
    expect(committed()).toEqual(['aaaaaaaaaa'])
  })

  it('never answers for a write that is not there, whatever the disk had room for', async () => {
    for (let pages = 0; pages < 80; pages += 7) {
      database.exec('DELETE FROM notes; VACUUM')
      limitPages(pages)
      const texts = ['a', 'b', 'c', 'd'].map((letter) => big(letter, 60_000))
      const outcomes = await outcomesOf(texts.map((text) => commits.write(() => note(text))))
      const answered = outcomes.filter((outcome) => typeof outcome === 'string')
      expect(committed()).toEqual(answered)
      const refused = outcomes.filter((outcome) => typeof outcome !== 'string')
      expect(refused).toEqual(refused.map(() => expect.objectContaining({ code: 'ERR_STORAGE_FULL' })))
    }
  })

  it.each([
    ['SQLITE_FULL', 'ERR_STORAGE_FULL'],
    ['SQLITE_IOERR_WRITE', 'ERR_STORAGE_FULL'],
    ['SQLITE_IOERR_SHMSIZE', 'ERR_STORAGE_FULL'],
    ['ENOSPC', 'ERR_STORAGE_FULL'],
    ['EDQUOT', 'ERR_STORAGE_FULL'],
    ['SQLITE_BUSY', 'ERR_STORE'],
    ['SQLITE_IOERR_READ', 'ERR_STORE'],
    ['SQLITE_CORRUPT', 'ERR_STORE'],
    ['SQLITE_READONLY_DBMOVED', 'ERR_STORE']
  ])('takes %s for %s', async (sqliteCode, code) => {
    const cause = Object.assign(new Error('of the disk'), { code: sqliteCode })
    const written = commits.write(() => {
      throw cause
    })
    await expect(written).rejects.toMatchObject({ code, cause })
  })

  it('refuses all writes of a round whose commit fails, and keeps none', async () => {
    database.pragma('foreign_keys = ON')
    database.exec('CREATE TABLE children (parent TEXT REFERENCES notes (text) DEFERRABLE INITIALLY DEFERRED)')
    const outcomes = await outcomesOf([
      commits.write(() => note('a')),
      commits.write(() => database.prepare("INSERT INTO children VALUES ('nobody')").run())
    ])
    expect(outcomes).toMatchObject([{ code: 'ERR_STORE' }, { code: 'ERR_STORE' }])
    expect(committed()).toEqual([])
    expect(await commits.write(() => note('b'))).toBe('b')
  })
})

describe('GroupCommit beside another connection that writes', () => {
  let other: SqliteFile
  beforeEach(() => {
    other = openDatabase(join(folder, 'a.db'))
    other.exec('BEGIN IMMEDIATE')
  })
  afterEach(() => {
    jest.restoreAllMocks()
    other.close()
  })

  it('carries a write out when the other is done, once, and lets all else happen meanwhile', async () => {
    let runs = 0
    const written = commits.write(() => {
      runs += 1
      return note('a')
    })
    for (let turn = 0; turn < 20; turn += 1) await pause(1)
    expect(runs).toBe(0)
    other.exec('COMMIT')
    expect(await written).toBe('a')
    expect([runs, committed()]).toEqual([1, ['a']])
  })

  it('stands still for less than a second at a time', async () => {
    const written = commits.write(() => note('a'))
    let longest = 0
    for (let turn = 0; turn < 10; turn += 1) {
      const start = performance.now()
      await pause(1)
      longest = Math.max(longest, performance.now() - start)
    }
    expect(longest).toBeLessThan(1_000)
    other.exec('COMMIT')
    await written
  })

  it('keeps the order of those that waited and those that came meanwhile', async () => {
    const answered: string[] = []
    const writes: Promise<unknown>[] = []
    for (const text of ['a', 'b', 'c', 'd', 'e', 'f']) {
      writes.push(commits.write(() => note(text)).then((one) => answered.push(one)))
      if (text === 'b' || text === 'd') await pause(50)
    }
    expect(answered).toEqual([])
    other.exec('COMMIT')
    await Promise.all(writes)
    expect(answered).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
    expect(committed()).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
  })

  it('refuses each write with ERR_STORE after 5 s of its own, without having run it', async () => {
    let now = 0
    jest.spyOn(performance, 'now').mockImplementation(() => now)
    const run = jest.fn(() => 'never')
    const first = commits.write(run)
    const refused = expect(first).rejects.toMatchObject({ code: 'ERR_STORE', cause: { code: 'SQLITE_BUSY' } })
    now = 4_000
    const second = commits.write(() => note('second'))
    now = 4_999
    await pause(60)
    now = 5_000
    await refused
    expect(run).not.toHaveBeenCalled()
    now = 8_999
    await pause(60)
    other.exec('COMMIT')
    expect(await second).toBe('second')
    expect(committed()).toEqual(['second'])
  })

  it('goes on after it has refused all', async () => {
    const now = jest.spyOn(performance, 'now').mockReturnValue(0)
    const writes = ['a', 'b'].map((text) => commits.write(() => note(text)))
    now.mockReturnValue(5_000)
    expect(await outcomesOf(writes)).toMatchObject([{ code: 'ERR_STORE' }, { code: 'ERR_STORE' }])
    other.exec('COMMIT')
    expect(await commits.write(() => note('c'))).toBe('c')
    expect(committed()).toEqual(['c'])
  })

  it('refuses what waits once the database is closed', async () => {
    const writes = ['a', 'b'].map((text) => commits.write(() => note(text)))
    const outcomes = outcomesOf(writes)
    await pause(30)
    database.close()
    const closed = expect.objectContaining({ message: 'The database connection is not open' })
    expect(await outcomes).toEqual([closed, closed])
    other.exec('COMMIT')
    expect(committed()).toEqual([])
  })

  it('waits as well when the other comes between a write that throws and those beside it', async () => {
    other.exec('COMMIT')
    const failure = Object.defineProperty(new Error('no'), 'code', {
      // Looked at when all is undone, and the rest not begun anew.
      get: () => {
        if (!other.inTransaction) other.exec('BEGIN IMMEDIATE')
        return 'NO_CODE'
      }
    })
    const inner: Promise<string>[] = []
    let runs = 0
    const outcomes = outcomesOf([
      commits.write(() => {
        runs += 1
        if (runs === 1) inner.push(commits.write(() => note('inner')))
        return note('a')
      }),
      commits.write(() => {
        if (!other.inTransaction && runs === 1) throw failure
        return note('b')
      })
    ])
    await pause(100)
    expect([other.inTransaction, runs]).toEqual([true, 1])
    other.exec('COMMIT')
    expect(await outcomes).toEqual(['a', 'b'])
    expect(await Promise.all(inner)).toEqual(['inner'])
    expect(committed()).toEqual(['a', 'b', 'inner'])
  })

  it('leaves to other statements of its connection how long they wait', async () => {
    const written = commits.write(() => note('a'))
    await pause(30)
    expect(database.pragma('busy_timeout', { simple: true })).toBe(5_000)
    other.exec('COMMIT')
    await written
    expect(database.pragma('busy_timeout', { simple: true })).toBe(5_000)
  })
})

describe('GroupCommit on a database that fails', () => {
  it.each(['SQLITE_BUSY', 'SQLITE_FULL', 'SQLITE_IOERR_FSYNC', 'SQLITE_CORRUPT_VTAB', 'SQLITE_READONLY_DBMOVED'])(
    'refuses all writes of a round at once, and runs none again: %s',
    async (code) => {
      const cause = Object.assign(new Error('of the disk'), { code })
      const runs: string[] = []
      const outcomes = await outcomesOf([
        commits.write(() => {
          runs.push('a')
          return note('a')
        }),
        commits.write(() => {
          runs.push('b')
          throw cause
        }),
        commits.write(() => runs.push('c'))
      ])
      expect(outcomes).toMatchObject([{ cause }, { cause }, { cause }])
      expect(runs).toEqual(['a', 'b'])
      expect(committed()).toEqual([])
      expect(await commits.write(() => note('d'))).toBe('d')
    }
  )

  it('lets the others pass where a statement was wrong', async () => {
    const outcomes = await outcomesOf([
      commits.write(() => note('a')),
      commits.write(() => {
        database.exec('INSERT INTO nowhere VALUES (1)')
      })
    ])
    expect(outcomes).toMatchObject(['a', { code: 'ERR_STORE', cause: { code: 'SQLITE_ERROR' } }])
    expect(committed()).toEqual(['a'])
  })
})
