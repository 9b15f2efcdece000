import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { EventEmitter } from 'node:events'
import { createServer, request, type ClientRequest, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { ContentStore } from '../../servers/shared/content/content-store.js'
import { AnswerRoom } from '../../servers/vault/reads/answer-room.js'
import { ReaderGone, ReadingGate } from '../../servers/vault/reads/reading-gate.js'
import { ReadingTurns } from '../../servers/vault/reads/reading-turns.js'
import { checkEntries } from '../../servers/vault/reads/send-entries.js'
import { testVault, VaultUser, type TestVault } from '../support/vault-app.js'
import { fillVault } from '../support/vault-fill.js'
import { walletOf } from '../support/wallet.js'

const ENTRIES = 9_900
const CROWD = 300

jest.setTimeout(60_000)

let vault: TestVault
let user: VaultUser
let server: Server
let url: string

beforeEach(async () => {
  vault = await testVault()
  user = await VaultUser.logIn(vault.listener, walletOf(1))
  server = createServer(vault.listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', 1_024, resolve))
  url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`
  const entries = Array.from({ length: ENTRIES }, (_, number): [string, string] => ['many', `entry ${number}`])
  fillVault(vault, user.did, [...entries, ['one', 'small']])
})
afterEach(async () => {
  jest.restoreAllMocks()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

interface Answer {
  status: number
  retryAfter: string | undefined
  byteCount: number
}

/** A request on a connection of its own. */
function open(path: string): { req: ClientRequest; answer: Promise<Answer> } {
  const req = request(url + path, { agent: false })
  const answer = new Promise<Answer>((resolve, reject) => {
    req.on('error', reject)
    req.on('response', (res) => {
      let byteCount = 0
      res.on('data', (chunk: Buffer) => (byteCount += chunk.length))
      res.on('end', () => {
        resolve({ status: res.statusCode ?? 0, retryAfter: res.headers['retry-after'], byteCount })
      })
    })
  })
  req.end()
  return { req, answer }
}

describe('a crowd that reads a key of 9,900 entries at once', () => {
  it('is answered, or told to come back, and stops nobody else', async () => {
    const other = await VaultUser.logIn(vault.listener, walletOf(2))
    const crowd = Array.from({ length: CROWD }, () => open(`/${user.did}/many`).answer)
    let isOver = false
    const answers = Promise.all(crowd).finally(() => (isOver = true))
    const waits: number[] = []
    while (!isOver) {
      const askedAt = performance.now()
      expect((await open('/health').answer).status).toBe(200)
      waits.push(Math.round(performance.now() - askedAt))
      expect(await open(`/${user.did}/one`).answer).toMatchObject({ status: 200, byteCount: 9 })
      await other.get('keys').expect(200, { keys: [] })
      await other.get('backup').expect(200)
      await pause(20)
    }
    const byStatus = new Map<number, number>()
    for (const { status, retryAfter, byteCount } of await answers) {
      byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
      if (status === 200)
        expect(byteCount).toBe(JSON.stringify(Array.from({ length: ENTRIES }, (_, number) => `entry ${number}`)).length)
      else expect([status, retryAfter]).toEqual([503, '1'])
    }
    process.stdout.write(`slowest /health: ${Math.max(...waits)} ms; answers ${JSON.stringify([...byStatus])}\n`)
    expect(Math.max(...waits)).toBeLessThan(2_000)
    expect(byStatus.get(200)).toBeGreaterThanOrEqual(8)
    expect(vault.log().filter(({ reason }) => reason !== 'ERR_BUSY' && reason !== undefined)).toEqual([])
  })

  it('that goes away costs nothing more', async () => {
    const reads = jest.spyOn(ContentStore.prototype, 'read')
    const crowd = Array.from({ length: CROWD }, () => open(`/${user.did}/many`))
    const failed = Promise.allSettled(crowd.map(({ answer }) => answer))
    while (reads.mock.calls.length < 1_000) await pause(1)
    for (const { req } of crowd) req.destroy()
    await failed
    await pause(100)
    const readSoFar = reads.mock.calls.length
    expect(readSoFar).toBeLessThan(8 * ENTRIES)
    await pause(200)
    expect(reads.mock.calls).toHaveLength(readSoFar)
    expect((await open(`/${user.did}/many`).answer).status).toBe(200)
    expect(vault.log().filter(({ level, reason }) => level === 'error' && reason !== 'ERR_BUSY')).toEqual([])
  })
})

describe('turns of reading', () => {
  it('are shared: after 256 KiB of one reader each waits for a turn of its own, first come, first served', async () => {
    const turns = new ReadingTurns()
    turns.spend(262_143)
    expect(turns.isOver).toBe(false)
    turns.spend(1)
    expect(turns.isOver).toBe(true)
    const order: string[] = []
    const first = turns.next().then(() => order.push('first'))
    const second = turns.next().then(() => order.push('second'))
    const between = new Promise<void>((resolve) =>
      setImmediate(() => {
        order.push('others')
        resolve()
      })
    )
    await first
    expect(turns.isOver).toBe(true)
    await Promise.all([second, between])
    expect(order).toEqual(['first', 'others', 'second'])
    expect(turns.isOver).toBe(false)
  })

  it('end while one answer is checked', async () => {
    const entries = Array.from({ length: 1_024 }, (_, number) => number)
    let turns = 0
    let isOver = false
    const count = (): void => {
      turns += 1
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    const shared = { turns: new ReadingTurns(), gate: new ReadingGate(), room: new AnswerRoom() }
    const reader = { destroyed: false, destroy: () => undefined, once: () => undefined }
    const answer = { entries, listedBytes: 0, before: () => ',', end: ']', read: () => Buffer.alloc(0) }
    await checkEntries(shared, reader, answer)
    isOver = true
    // After 256, 512 and 768 entries: each counts as a kibibyte and its three bytes.
    expect(turns).toBe(3)
  })
})

describe('the gate of reading', () => {
  const stay = () => new Promise<never>(() => undefined)

  it('lets 8 in and 256 wait, and is busy to one more, who is told to come back in 1 s', async () => {
    const gate = new ReadingGate()
    const left: (() => void)[] = []
    const visits = Array.from({ length: 8 + 256 }, () =>
      gate.pass({ destroyed: false }, () => new Promise<void>((resolve) => left.push(resolve)))
    )
    expect([left.length, gate.isFull]).toEqual([8, true])
    await expect(gate.pass({ destroyed: false }, stay)).rejects.toMatchObject({
      code: 'ERR_BUSY',
      retryAfterSeconds: 1
    })
    for (let count = 0; count < 8 + 256; count += 1) {
      left[count]?.()
      await new Promise(setImmediate)
      expect(left).toHaveLength(Math.min(count + 9, 264))
    }
    await Promise.all(visits)
    expect(gate.isFull).toBe(false)
  })

  it('is busy to who has waited 5 s', async () => {
    jest.useFakeTimers()
    try {
      const gate = new ReadingGate()
      for (let count = 0; count < 8; count += 1) void gate.pass({ destroyed: false }, stay)
      let outcome: unknown
      gate.pass({ destroyed: false }, stay).catch((error: unknown) => (outcome = error))
      await jest.advanceTimersByTimeAsync(4_999)
      expect(outcome).toBeUndefined()
      await jest.advanceTimersByTimeAsync(1)
      expect(outcome).toMatchObject({ code: 'ERR_BUSY' })
    } finally {
      jest.useRealTimers()
    }
  })

  it('keeps no place for who has gone, nor for who waits elsewhere', async () => {
    const gate = new ReadingGate()
    let arrive = (_bytes: string): void => undefined
    const slow = new Promise<string>((resolve) => (arrive = resolve))
    const reader = { destroyed: false }
    const waiting = gate.pass(reader, () => gate.outside(reader, slow))
    for (let count = 0; count < 7; count += 1) void gate.pass({ destroyed: false }, stay)
    expect(gate.isFull).toBe(false)
    void gate.pass({ destroyed: false }, stay)
    expect(gate.isFull).toBe(true)
    // All who wait have gone, so that there is room for one who has not.
    const gone = Array.from({ length: 256 }, () => ({ destroyed: false }))
    const outcomes = gone.map((one) => gate.pass(one, stay).catch((error: unknown) => error))
    for (const one of gone) one.destroyed = true
    const late = gate.pass({ destroyed: false }, stay).catch((error: unknown) => error)
    expect(new Set((await Promise.all(outcomes)).map(String))).toEqual(new Set(['ReaderGone']))
    expect(await Promise.race([late, new Promise((resolve) => setImmediate(resolve, 'waits'))])).toBe('waits')
    arrive('bytes')
    expect(await waiting).toBe('bytes')
  })

  it('prepares nothing for who has gone while waiting', async () => {
    const gate = new ReadingGate()
    let leave = (): void => undefined
    const first = gate.pass({ destroyed: false }, () => new Promise<void>((resolve) => (leave = resolve)))
    for (let count = 0; count < 7; count += 1) void gate.pass({ destroyed: false }, stay)
    const reader = { destroyed: false }
    const waiting = gate.pass(reader, stay)
    reader.destroyed = true
    leave()
    await first
    await expect(waiting).rejects.toThrow(ReaderGone)
  })
})

describe('the room of answers', () => {
  /** Who holds something, until it goes. */
  class Held extends EventEmitter {
    destroyed = false
    destroy(): void {
      this.destroyed = true
      this.emit('close')
    }
  }

  it('counts the list of an answer while its content is waited for, and refuses a list that is too long', async () => {
    const room = new AnswerRoom(1_000_000)
    const shared = { turns: new ReadingTurns(), gate: new ReadingGate(), room }
    let arrive = (_content: Buffer): void => undefined
    const read = () => new Promise<Buffer>((resolve) => (arrive = resolve))
    const answer = { entries: ['one'], listedBytes: 600_000, before: () => '[', end: ']', read }
    const checked = checkEntries(shared, new Held(), answer)
    expect(room.bytes).toBe(600_000)
    const refused = checkEntries(shared, new Held(), answer)
    await expect(refused).rejects.toMatchObject({ code: 'ERR_BUSY', retryAfterSeconds: 1 })
    arrive(Buffer.from('content'))
    expect(await checked).toEqual({ byteCount: 11, text: Buffer.from('["content"]') })
    expect(room.bytes).toBe(0)
  })

  it('counts what is more than 64 KiB until the connection closes, and refuses what would be too much', () => {
    const room = new AnswerRoom(1_000_000)
    const [one, other, small] = [new Held(), new Held(), new Held()]
    expect(room.hold(one, 600_000)).toBe(true)
    expect(room.hold(other, 400_001)).toBe(false)
    expect(room.hold(other, 400_000)).toBe(true)
    expect(room.hold(small, 65_536)).toBe(true)
    expect(room.hold(small, 65_537)).toBe(false)
    expect(room.bytes).toBe(1_000_000)
    expect(room.hold(one, 0)).toBe(true)
    expect(room.bytes).toBe(400_000)
    one.emit('close')
    other.emit('close')
    expect(room.bytes).toBe(0)
  })

  it('lets go of readers who took nothing for 10 s, the slowest first, only when there is need', () => {
    let now = 0
    const room = new AnswerRoom(1_000_000, () => now)
    const [slow, slower, asking] = [new Held(), new Held(), new Held()]
    room.hold(slow, 300_000)
    room.hold(slower, 300_000)
    now = 1
    room.renew(slow)
    now = 10_000
    expect(room.hold(asking, 400_000)).toBe(true)
    expect([slow.destroyed, slower.destroyed]).toEqual([false, false])
    expect(room.hold(asking, 700_000)).toBe(true)
    expect([slow.destroyed, slower.destroyed]).toEqual([false, true])
    expect(room.hold(asking, 700_001)).toBe(false)
    now = 10_001
    expect(room.hold(asking, 700_001)).toBe(true)
    expect([slow.destroyed, room.bytes]).toEqual([true, 700_001])
  })
})
