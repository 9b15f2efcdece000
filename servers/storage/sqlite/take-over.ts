import type { Clock } from 'express-did-auth'
import { escapeJson } from '../../http/json-string.js'
import { newContentOf } from '../unixfs-blocks.js'
import type { ObjectWriter } from '../object-writer.js'
import type { TakenOver } from '../opened-content-store.js'
import type { VerbCaller } from './verb-caller.js'

/** Moves what lies in blocks to where content lies now. Nothing is lost, whenever the process ends meanwhile. */
export async function takeOverContents(parts: {
  readonly verbs: VerbCaller
  readonly writer: ObjectWriter
  readonly clock: Clock
}): Promise<TakenOver> {
  const { verbs, writer, clock } = parts
  const damagedCids: string[] = []
  let movedCount = 0
  let batch = await verbs.call('takeOver', 'nextContents', '')
  while (batch.length > 0) {
    // Together, so that small ones share a commit.
    const moves = batch.map(async ({ cid, bytes }) => {
      if (bytes === undefined) {
        damagedCids.push(cid)
        return
      }
      const content = newContentOf(bytes, escapeJson(bytes).length + 2)
      await writer.store(content, (row) => verbs.call('takeOver', 'moveContent', row, clock.nowSeconds()))
      movedCount += 1
    })
    await Promise.all(moves)
    batch = await verbs.call('takeOver', 'nextContents', batch.at(-1)?.cid ?? '')
  }
  for (let place: [number, string] | undefined = [0, '']; place !== undefined;) {
    place = await verbs.call('takeOver', 'buildLists', place)
  }
  if (damagedCids.length === 0) await verbs.call('takeOver', 'dropBlocks')
  return { movedCount, damagedCids }
}
