import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { join } from 'node:path'
import { faultsAfter, startWriter } from '../../../support/content-crashes.js'
import { usePostgresContents, type PostgresContents } from '../../../support/postgres-contents.js'

/** How often each point is tried. */
const ROUNDS = Number(process.env.TEST_CRASH_ROUNDS ?? 1)

const make = usePostgresContents()
let files: PostgresContents
let place: string
beforeEach(async () => {
  files = await make()
  place = `${files.url} ${join(files.folder, 'writer')}`
  // The writers' clock is the real one.
  files.clocks.seconds = Math.floor(Date.now() / 1_000)
})
afterEach(() => files.remove())

const points = [
  ['put', 'before', 'its name is garbage, and nothing is written'],
  ['put', 'after', 'the object is whole, and not in use'],
  ['delete', 'before', 'the collector found it, and it is there'],
  ['delete', 'after', 'the collector deleted it, and its row is there']
] as const

describe('a process that is killed while it stores large content in PostgreSQL, its collector beside it', () => {
  const rounds = points.flatMap((point) => Array.from({ length: ROUNDS }, (_, round) => [...point, round + 1] as const))
  it.each(rounds)(
    '%s %s: %s; loses nothing acknowledged and leaves nothing behind (round %d)',
    async (verb, when, _what, _round) => {
      const writer = startWriter(place, 'a', verb, when, '5')
      expect(await writer.ended).toBe('SIGKILL')
      const store = await files.open()
      expect(await faultsAfter(store, writer.lines, () => files.leaks(store))).toEqual([])
    }
  )

  it('at any moment, with another process that writes to the same database', async () => {
    const [writer, another] = [startWriter(place, 'a'), startWriter(place, 'b')]
    await Promise.all([writer.saidLines(25), another.saidLines(20)])
    writer.child.kill('SIGKILL')
    await writer.ended
    await another.saidLines(another.lines.length + 4)
    another.child.kill('SIGKILL')
    await another.ended
    const store = await files.open()
    const lines = [...writer.lines, ...another.lines]
    expect(await faultsAfter(store, lines, () => files.leaks(store))).toEqual([])
  })
})
