import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { faultsAfter, leaksOf, startWriter } from '../../support/content-crashes.js'
import { sqliteFolder, type SqliteFolder } from '../../support/content-stores.js'

/** How often each point is tried. */
const ROUNDS = Number(process.env.TEST_CRASH_ROUNDS ?? 1)

let files: SqliteFolder
beforeEach(() => {
  files = sqliteFolder()
  // The writers' clock is the real one.
  files.clocks.seconds = Math.floor(Date.now() / 1_000)
})
afterEach(() => files.remove())

const points = [
  ['put', 'before', 'its name is garbage, and nothing is written'],
  ['link', 'before', 'the file is synced, and not in its place'],
  ['link', 'after', 'the object is in its place, and its folder not synced'],
  ['put', 'after', 'the object is whole, and not in use'],
  ['delete', 'before', 'the collector claimed it, and it is there'],
  ['delete', 'after', 'the collector deleted it, and its row is there']
] as const

describe('a process that is killed while it stores large content, its collector beside it', () => {
  const rounds = points.flatMap((point) => Array.from({ length: ROUNDS }, (_, round) => [...point, round + 1] as const))
  it.each(rounds)(
    '%s %s: %s; loses nothing acknowledged and leaves nothing behind (round %d)',
    async (verb, when, _what, _round) => {
      const writer = startWriter(files.folder, 'a', verb, when, '7')
      expect(await writer.ended).toBe('SIGKILL')
      const store = await files.open()
      expect(await faultsAfter(store, writer.lines, () => leaksOf(files, store))).toEqual([])
    }
  )

  it.each(Array.from({ length: ROUNDS }, (_, round) => 20 + ((round * 7) % 40)))(
    'at any moment, after %d lines, with another process that writes to the same folder',
    async (lines) => {
      const [writer, another] = [startWriter(files.folder, 'a'), startWriter(files.folder, 'b')]
      await Promise.all([writer.saidLines(lines), another.saidLines(20)])
      writer.child.kill('SIGKILL')
      await writer.ended
      await another.saidLines(another.lines.length + 4)
      another.child.kill('SIGKILL')
      await another.ended
      const store = await files.open()
      expect(await faultsAfter(store, [...writer.lines, ...another.lines], () => leaksOf(files, store))).toEqual([])
    }
  )

  it('loses no upload to a collector that takes each for unfinished', async () => {
    const collector = await files.open()
    files.clocks.advance(20_000)
    const writer = startWriter(files.folder, 'a')
    let isOver = false
    const collecting = (async () => {
      while (!isOver) {
        await collector.collectGarbage(files.clocks.seconds)
        await new Promise(setImmediate)
      }
    })()
    await writer.saidLines(30)
    writer.child.kill('SIGKILL')
    await writer.ended
    isOver = true
    await collecting
    // The spool of the killed process is cleared at the next start.
    const next = await files.open()
    expect(await faultsAfter(next, writer.lines, () => leaksOf(files, next))).toEqual([])
  })
})
