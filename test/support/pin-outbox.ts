import { Writable } from 'node:stream'
import { pino } from 'pino'
import { openDatabase, type SqliteFile } from '../../servers/shared/content/database.js'
import { GroupCommit } from '../../servers/shared/content/group-commit.js'
import type { IpfsNode } from '../../servers/shared/ipfs/ipfs-node.js'
import { PinIntents } from '../../servers/vault/pins/pin-intents.js'
import { PinOutbox } from '../../servers/vault/pins/pin-outbox.js'

/** An outbox on a database, as one process has it. */
export interface TestOutbox {
  outbox: PinOutbox
  intents: PinIntents
  database: SqliteFile
  /** Changes minds in one transaction. */
  change(change: (intents: PinIntents) => void): void
  /** Lines of the log. */
  log: Record<string, unknown>[]
  close(): Promise<void>
}

/** Opens a database, also one that another has open, with an outbox. Content of a cid is the cid itself. */
export function testOutbox(
  file: string,
  node: IpfsNode,
  read: (cid: string) => Uint8Array | undefined = (cid) => Buffer.from(cid)
): TestOutbox {
  const database = openDatabase(file)
  const intents = new PinIntents(database, new GroupCommit(database))
  const log: Record<string, unknown>[] = []
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      log.push(JSON.parse(chunk.toString()) as Record<string, unknown>)
      done()
    }
  })
  const outbox = new PinOutbox({ intents, node, read, log: pino(destination) })
  return {
    outbox,
    intents,
    database,
    log,
    change: (change) => {
      database
        .transaction(() => {
          change(intents)
        })
        .immediate()
    },
    close: async () => {
      await outbox.stop()
      database.close()
    }
  }
}

/** Lets everything happen that needs no time. */
export async function settleDown(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate)
}
