import { describe, expect, it } from '@jest/globals'
import type { FileStore } from '../../servers/relay/file-store.js'
import { MemoryFiles } from '../../servers/relay/memory-files.js'
import { restoreFiles } from '../../servers/relay/restore-files.js'

const maxBytes = 1_000_000

function storeOf(cids: readonly string[], onRead: (cid: string) => void = () => undefined): FileStore {
  const store: Pick<FileStore, 'keptSince' | 'read'> = {
    keptSince: () => cids.map((cid) => ({ cid, byteCount: 1, keptAtSeconds: 1_000 })),
    read: (cid) => {
      onRead(cid)
      return Buffer.from(cid)
    }
  }
  return store as FileStore
}

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

  it('leaves what was posted meanwhile as it is', async () => {
    const memory = new MemoryFiles({ maxBytes, ttlSeconds: 100 })
    const store = storeOf(['b', 'a'], (cid) => {
      if (cid === 'a') memory.keep({ cid: 'b', byteCount: 1, answer: Buffer.from('new') }, 'did:1', 2_000)
    })
    await restoreFiles({ memory, store, maxBytes }, 0, new AbortController().signal)
    expect(String(memory.find('a', 1_000))).toBe('{"file":"a"}')
    expect(String(memory.find('b', 2_099))).toBe('new')
  })
})
