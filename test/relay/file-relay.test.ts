import { beforeEach, describe, expect, it } from '@jest/globals'
import { setImmediate as nextRound } from 'node:timers/promises'
import { FileRelay } from '../../servers/relay/file-relay.js'
import type { FileStore } from '../../servers/relay/file-store.js'
import { MemoryFiles } from '../../servers/relay/memory-files.js'
import type { Content } from '../../servers/shared/content/content-blocks.js'
import { textInBody } from '../../servers/shared/upload/json-text.js'
import { UploadRoom } from '../../servers/shared/upload/upload-room.js'
import { START_SECONDS, TestClock } from '../support/relay-app.js'

const [did, other] = ['did:one', 'did:two']

let room: UploadRoom
let relay: FileRelay
let memory: MemoryFiles
interface Waiting {
  resolve: () => void
  reject: (error: Error) => void
}

/** Times at which what is in the store was kept. */
let kept: Record<string, number>
/** Files that wait for the store, by their first letter. */
let waiting: Map<string, Waiting[]>
let restored: () => void

beforeEach(() => {
  room = new UploadRoom({ maxBytes: 1_000_000 })
  memory = new MemoryFiles({ maxBytes: 10_000_000, ttlSeconds: 100 })
  waiting = new Map()
  kept = {}
  const store: Pick<FileStore, 'keep' | 'find' | 'read'> = {
    find: (cid) => {
      const keptAtSeconds = kept[cid]
      return keptAtSeconds === undefined ? undefined : { cid, byteCount: cid.length, keptAtSeconds }
    },
    read: (cid) => Buffer.from(cid),
    keep: (_content: Content, bytes: Uint8Array) =>
      new Promise((resolve, reject) => {
        const letter = String.fromCharCode(bytes[0] ?? 0)
        waiting.set(letter, [...(waiting.get(letter) ?? []), { resolve, reject }])
      })
  }
  relay = new FileRelay({
    maxBytesPerDid: 1_000_000,
    maxMemoryBytes: 10_000_000,
    memory,
    store: store as FileStore,
    restored: new Promise((resolve) => (restored = resolve)),
    clock: new TestClock(),
    room
  })
})

const textOf = (file: string) => {
  const text = textInBody(Buffer.from(JSON.stringify({ file })), 'file')
  if (text === undefined) throw new Error('no text')
  return text
}
const post = (letter: string, size: number, user = did) => relay.post(user, textOf(letter.repeat(size)))
const stored = (letter: string) => waiting.get(letter)?.shift()?.resolve()
const failed = (letter: string) => waiting.get(letter)?.shift()?.reject(new Error('no'))

describe('FileRelay', () => {
  it('counts what is posted until it is stored, and refuses what finds no room meanwhile', async () => {
    const posts = [post('a', 100_000), post('b', 100_000), post('b', 100_000, other)]
    // `{"file":"…"}` each.
    expect(room.bytes).toBe(300_033)
    await expect(post('c', 70_000)).rejects.toMatchObject({ code: 'ERR_BUSY' })
    // Escaped, it is there twice.
    posts.push(relay.post(other, textOf(`d${'d'.repeat(69_999)}\n`)))
    expect(room.bytes).toBe(440_047)
    posts.push(post('e', 60_000))
    expect(room.bytes).toBe(440_047)
    for (const letter of ['a', 'b', 'b', 'd', 'e']) stored(letter)
    await Promise.all(posts)
    expect(room.bytes).toBe(0)
  })

  it('counts one content that a user posts twice at once only once, also where one of them is stored already', async () => {
    const sizeLeft = async () => {
      const refusal: unknown = await post('f', 2_000_000).catch((error: unknown) => error)
      return (refusal as Error).message
    }
    const posts = [post('a', 60_000), post('a', 60_000), post('b', 10_000)]
    const taken = 'Storage full: 70000 of 1000000 bytes held by this DID, 2000000 needed'
    expect(await sizeLeft()).toBe(taken)
    stored('a')
    await posts[0]
    expect(await sizeLeft()).toBe(taken)
    stored('a')
    await posts[1]
    expect(await sizeLeft()).toBe(taken)
    stored('b')
    await posts[2]
    expect(await sizeLeft()).toBe(taken)
  })

  it('counts nothing of what could not be stored', async () => {
    const posts = [post('a', 60_000), post('a', 60_000)]
    failed('a')
    await expect(posts[0]).rejects.toThrow('no')
    await expect(post('f', 2_000_000)).rejects.toThrow('Storage full: 60000 of 1000000')
    failed('a')
    await expect(posts[1]).rejects.toThrow('no')
    await expect(post('f', 2_000_000)).rejects.toThrow('Storage full: 0 of 1000000')
  })

  it('finds what has not come back yet after a restart in the store, and says at once what is not there', () => {
    kept = { late: START_SECONDS, last: START_SECONDS - 99, over: START_SECONDS - 100 }
    expect(String(relay.find('late'))).toBe('{"file":"late"}')
    expect([memory.has('late'), memory.isHeldBy('late', did)]).toEqual([true, false])
    expect(String(relay.find('last'))).toBe('{"file":"last"}')
    for (const cid of ['over', 'unknown']) {
      expect(() => relay.find(cid)).toThrow(expect.objectContaining({ code: 'ERR_NOT_FOUND' }))
      expect(memory.has(cid)).toBe(false)
    }
  })

  it('hands out nothing but what is in memory once all has come back', async () => {
    kept = { late: START_SECONDS }
    restored()
    await nextRound()
    expect(() => relay.find('late')).toThrow(expect.objectContaining({ code: 'ERR_NOT_FOUND' }))
  })
})
