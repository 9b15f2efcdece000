import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { join } from 'node:path'
import { setImmediate as nextRound } from 'node:timers/promises'
import { EmbeddedFileStore } from '../../servers/relay/embedded-file-store.js'
import type { FileStore } from '../../servers/relay/file-store.js'
import { MemoryFiles } from '../../servers/relay/memory-files.js'
import { restoreFiles } from '../../servers/relay/restore-files.js'
import { contentOf } from '../../servers/shared/content/content-blocks.js'
import { openDatabase } from '../../servers/shared/content/database.js'
import { temporaryFolder } from '../support/store-folder.js'

const maxBytes = 1_000_000

/** @param cids - the newest first */
function storeOf(cids: readonly string[], onRead: (cid: string) => void = () => undefined): FileStore {
  const store: Pick<FileStore, 'keptSince' | 'read'> = {
    keptSince: (_seconds, limit, last) => {
      const start = last === undefined ? 0 : cids.indexOf(last.cid) + 1
      return cids.slice(start, start + limit).map((cid) => ({ cid, byteCount: 1, keptAtSeconds: 1_000 }))
    },
    read: (cid) => {
      onRead(cid)
      return Buffer.from(cid)
    }
  }
  return store as FileStore
}

/** Restores, and counts the files that are read in each round of the event loop. */
async function countRounds(count: number): Promise<number[]> {
  let [readInRound, isDone] = [0, false]
  const cids = Array.from({ length: count }, (_, index) => `file ${index}`)
  const store = storeOf(cids, () => (readInRound += 1))
  const memory = new MemoryFiles({ maxBytes, ttlSeconds: 100 })
  const restored = restoreFiles({ memory, store, maxBytes }, 0, new AbortController().signal)
  void restored.then(() => (isDone = true))
  const rounds: number[] = []
  while (!isDone) {
    await nextRound()
    if (readInRound > 0) rounds.push(readInRound)
    readInRound = 0
  }
  expect(cids.filter((cid) => !memory.has(cid))).toEqual([])
  return rounds
}

afterEach(() => {
  jest.restoreAllMocks()
})

describe('restoreFiles', () => {
  it('reads nothing any more once it is ended: the database may be closed', async () => {
    const ending = new AbortController()
    const memory = new MemoryFiles({ maxBytes, ttlSeconds: 100 })
    const read: string[] = []
    const store = storeOf(['c', 'b', 'a'], (cid) => {
      read.push(cid)
      if (cid === 'b') ending.abort()
    })
    await restoreFiles({ memory, store, maxBytes }, 0, ending.signal)
    expect(read).toEqual(['a', 'b'])
  })

  it('lists nothing any more once it is ended', async () => {
    const ending = new AbortController()
    const cids = Array.from({ length: 1_000 }, (_, index) => `file ${index}`)
    const store = storeOf(cids)
    const keptSince = jest.spyOn(store, 'keptSince')
    const memory = new MemoryFiles({ maxBytes: 10_000_000, ttlSeconds: 100 })
    const restored = restoreFiles({ memory, store, maxBytes: 10_000_000 }, 0, ending.signal)
    ending.abort()
    await restored
    expect(keptSince).toHaveBeenCalledTimes(1)
    expect(memory.has('file 0')).toBe(false)
  })

  it('leaves what was posted meanwhile as it is', async () => {
    const memory = new MemoryFiles({ maxBytes, ttlSeconds: 100 })
    const store = storeOf(['b', 'a'], (cid) => {
      if (cid === 'a') memory.keep({ cid: 'b', byteCount: 1, answer: Buffer.from('new') }, 'did:1', 2_000)
    })
    await restoreFiles({ memory, store, maxBytes }, 0, new AbortController().signal)
    expect(String(memory.find('a', 1_000))).toBe('{"file":"a"}')
    expect(String(memory.find('b', 2_099))).toBe('new')
  })

  it('reads on for 5 ms, then lets others have their turn', async () => {
    let now = 0
    jest.spyOn(performance, 'now').mockImplementation(() => (now += 1))
    // One look a file, and one when a round begins.
    expect(await countRounds(20)).toEqual([4, 5, 5, 5, 1])
  })

  it('reads as many as it can where they take no time', async () => {
    jest.spyOn(performance, 'now').mockReturnValue(0)
    expect(await countRounds(600)).toEqual([600])
  })

  it('lists what the database keeps in pages, those of one second as well, and brings all of it back', async () => {
    const folder = temporaryFolder()
    const database = openDatabase(join(folder.path, 'relay.db'))
    const store = new EmbeddedFileStore(database, { ttlSeconds: 100, maxBytes })
    const files = Array.from({ length: 600 }, (_, index) => {
      const bytes = Buffer.from(`file ${index}`)
      return { content: contentOf(bytes), bytes, keptAtSeconds: 1_000 + Math.floor(index / 400) }
    })
    await Promise.all(files.map(({ content, bytes, keptAtSeconds }) => store.keep(content, bytes, keptAtSeconds)))
    const memory = new MemoryFiles({ maxBytes, ttlSeconds: 100 })
    await restoreFiles({ memory, store, maxBytes }, 0, new AbortController().signal)
    expect(files.filter(({ content }) => !memory.has(content.cid))).toEqual([])
    const [first] = files
    expect(store.find(first!.content.cid)).toEqual({ cid: first!.content.cid, byteCount: 6, keptAtSeconds: 1_000 })
    expect(store.find('unknown')).toBeUndefined()
    database.close()
    folder.remove()
  })
})
