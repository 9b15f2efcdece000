import { beforeEach, describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { ArrivingUpload } from '../../servers/shared/upload/arriving-upload.js'
import { UploadRoom } from '../../servers/shared/upload/upload-room.js'

const MEBIBYTE = 1_048_576

let now: number
let room: UploadRoom
/** Names of uploads that have been ended, in order. */
let ended: string[]

beforeEach(() => {
  now = 0
  room = new UploadRoom({ maxBytes: 256 * MEBIBYTE, nowMilliseconds: () => now })
  ended = []
})

const uploadOf = (name: string, holder = name): ArrivingUpload =>
  new ArrivingUpload(holder, () => {
    ended.push(name)
  })

/** An upload of which so much is there. */
function arriving(name: string, mebibytes: number, holder = name): ArrivingUpload {
  const upload = uploadOf(name, holder)
  expect(room.admit(upload, mebibytes * MEBIBYTE)).toBe(true)
  return upload
}

/** Uploads of four users at the given times, which leave no room. */
function filled(times: readonly [number, number, number, number]): ArrivingUpload[] {
  return times.map((time, index) => {
    now = time
    return arriving(`user ${index}`, 64)
  })
}

describe('a full UploadRoom', () => {
  it('ends an upload that has come no further, when another one needs room: four users once filled it for minutes', () => {
    filled([0, 1, 2, 3])
    now = 5_001
    const newcomer = arriving('newcomer', 1)
    expect(ended).toEqual(['user 0'])
    expect([newcomer.bytes, room.bytes]).toEqual([MEBIBYTE, 193 * MEBIBYTE])
  })

  it('ends none in its first 5 s', () => {
    filled([0, 0, 0, 0])
    now = 5_000
    expect([room.admit(uploadOf('newcomer'), 1), ended]).toEqual([false, []])
    now = 5_001
    expect([room.admit(uploadOf('newcomer'), 1), ended]).toEqual([true, ['user 0']])
  })

  it('ends none while there is room, however slow they are', () => {
    const slow = [arriving('a', 64), arriving('b', 64), arriving('c', 64), arriving('d', 63)]
    now = 110_000
    arriving('e', 1)
    expect([ended, slow.map(({ bytes }) => bytes / MEBIBYTE)]).toEqual([[], [64, 64, 64, 63]])
  })

  it('ends none when what they hold would not be enough', () => {
    arriving('slow', 1)
    now = 5_001
    for (const name of ['a', 'b', 'c']) arriving(name, 64)
    arriving('d', 63)
    expect([room.admit(uploadOf('newcomer'), 2 * MEBIBYTE), ended]).toEqual([false, []])
    expect([room.admit(uploadOf('another'), MEBIBYTE), ended]).toEqual([true, ['slow']])
  })

  it('ends as many as it has to, and what takes longest for what it holds first', () => {
    room.take(192 * MEBIBYTE)
    const [large, small] = [arriving('large', 62), arriving('small', 1)]
    arriving('silent', 0.5)
    for (now = 100; now <= 8_000; now += 100) {
      // Six times as fast as the small one, and holding sixty times as much.
      room.admit(large, 600)
      room.admit(small, 100)
    }
    arriving('newcomer', 0.75)
    expect(ended).toEqual(['silent'])
    arriving('another', 8)
    expect(ended).toEqual(['silent', 'large'])
    expect([large.bytes, room.bytes > 200 * MEBIBYTE]).toEqual([0, true])
  })

  it('refuses one that takes longer itself than those it would end', () => {
    room.take(192 * MEBIBYTE)
    const slow = arriving('slow', 32)
    now = 4_000
    const better = arriving('better', 32)
    now = 10_000
    expect([room.admit(slow, 1), room.admit(better, 1)]).toEqual([false, true])
    expect([ended, room.bytes]).toEqual([['slow'], 224 * MEBIBYTE + 1])
  })

  it('never ends what is complete and waits for the store, which is let in instead of slow uploads', async () => {
    for (const name of ['a', 'b', 'c']) arriving(name, 64)
    let stored: (() => void) | undefined
    const work = () => new Promise<void>((resolve) => (stored = resolve))
    const first = room.hold(64 * MEBIBYTE, 'd', work)
    now = 60_000
    for (const name of ['e', 'f', 'g']) arriving(name, 64)
    expect([ended, room.admit(uploadOf('h'), 1)]).toEqual([['a', 'b', 'c'], false])
    stored?.()
    await first
    now = 120_000
    arriving('h', 64)
    await room.hold(MEBIBYTE, 'd', () => Promise.resolve())
    expect(ended).toEqual(['a', 'b', 'c', 'e'])
  })

  it('ends nobody for one who has a quarter already', () => {
    filled([0, 0, 0, 0])
    now = 60_000
    expect([room.admit(uploadOf('more', 'user 1'), 1), ended]).toEqual([false, []])
  })

  it('gives back all of an upload that is ended, to its user as well, and once', () => {
    const [first] = filled([0, 1, 2, 3])
    now = 60_000
    arriving('newcomer', 64)
    expect([first?.bytes, ended, room.bytes]).toEqual([0, ['user 0'], 256 * MEBIBYTE])
    if (first !== undefined) room.leave(first)
    expect(room.bytes).toBe(256 * MEBIBYTE)
    arriving('again', 64, 'user 0')
    expect([ended, room.bytes]).toEqual([['user 0', 'user 1'], 256 * MEBIBYTE])
  })

  it('lets 8 MiB at 1 MiB/s through, however often, against eight times its traffic in any shape', () => {
    const tickMilliseconds = 100
    const perTick = (8 * MEBIBYTE * tickMilliseconds) / 1_000
    for (const [sizeMebibytes, trickle] of [
      [48, 0],
      [24, 0.3],
      [1, 0.1],
      [0.125, 0.5]
    ] as const) {
      now = 0
      room = new UploadRoom({ maxBytes: 256 * MEBIBYTE, nowMilliseconds: () => now })
      let [count, done, lost, wasFull] = [0, 0, 0, false]
      const attacking = new Set<ArrivingUpload>()
      const open = (): ArrivingUpload => {
        count += 1
        const upload: ArrivingUpload = new ArrivingUpload(`attacker ${count}`, () => attacking.delete(upload))
        attacking.add(upload)
        return upload
      }
      const send = (upload: ArrivingUpload, bytes: number): void => {
        if (room.admit(upload, bytes)) return
        attacking.delete(upload)
        room.leave(upload)
      }
      const fresh = () => new ArrivingUpload('user', () => (lost += 1))
      let [bursting, own] = [open(), fresh()]
      for (; now < 80_000; now += tickMilliseconds) {
        // A part of the traffic goes into keeping alive what is there, the rest into more.
        const alive = [...attacking]
        if (trickle > 0) for (const upload of alive) send(upload, Math.ceil((perTick * trickle) / alive.length))
        for (let left = perTick * (1 - trickle); left > 0; left -= 65_536) {
          if (!attacking.has(bursting) || bursting.bytes >= sizeMebibytes * MEBIBYTE) bursting = open()
          send(bursting, 65_536)
        }
        wasFull ||= room.bytes > 255 * MEBIBYTE
        if (now < 45_000) continue
        if (!room.admit(own, perTick / 8)) lost += 1
        if (own.bytes < 8 * MEBIBYTE) continue
        room.leave(own)
        done += 1
        own = fresh()
      }
      expect([sizeMebibytes, wasFull, lost, done]).toEqual([sizeMebibytes, true, 0, 4])
    }
  })

  it('counts to the byte what uploads hold, whatever happens', () => {
    const step = fc.record({
      upload: fc.nat(11),
      bytes: fc.integer({ min: 1, max: 40 }),
      milliseconds: fc.integer({ min: 0, max: 4_000 }),
      leaves: fc.boolean()
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const small = new UploadRoom({ maxBytes: 200, nowMilliseconds: () => now })
        const uploads = Array.from(
          { length: 12 },
          (_, index) => new ArrivingUpload(`user ${index % 6}`, () => undefined)
        )
        for (const { upload: index, bytes, milliseconds, leaves } of steps) {
          now += milliseconds
          const upload = uploads[index]
          if (upload === undefined) continue
          if (leaves) small.leave(upload)
          else small.admit(upload, bytes)
          const sum = (some: ArrivingUpload[]) => some.reduce((total, each) => total + each.bytes, 0)
          const ofUsers = [0, 1, 2, 3, 4, 5].map((user) => sum(uploads.filter((_, each) => each % 6 === user)))
          expect([small.bytes, small.bytes <= 200, Math.max(...ofUsers) <= 50]).toEqual([sum(uploads), true, true])
        }
        for (const upload of uploads) small.leave(upload)
        // Nothing is left of anybody's share either.
        expect([small.bytes, ...[0, 1, 2, 3].map((user) => small.take(50, `user ${user}`))]).toEqual([
          0,
          true,
          true,
          true,
          true
        ])
      })
    )
  })
})
