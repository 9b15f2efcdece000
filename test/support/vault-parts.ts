import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { contentOf } from '../../servers/shared/content/content-blocks.js'
import { ContentStore } from '../../servers/shared/content/content-store.js'
import { openDatabase, type SqliteFile } from '../../servers/shared/content/database.js'
import { GroupCommit } from '../../servers/shared/content/group-commit.js'
import type { IpfsNode } from '../../servers/shared/ipfs/ipfs-node.js'
import { PinIntents } from '../../servers/vault/pins/pin-intents.js'
import { PinOutbox } from '../../servers/vault/pins/pin-outbox.js'
import { VaultIndex } from '../../servers/vault/vault-index.js'
import { Vault } from '../../servers/vault/vault.js'

/** A vault without its HTTP, as one process has it. */
export interface VaultInside {
  database: SqliteFile
  index: VaultIndex
  contents: ContentStore
  intents: PinIntents
  node: IpfsNode | undefined
  outbox: PinOutbox | undefined
  vault: Vault
  close(): Promise<void>
}

/** Opens a vault's file as the server does. */
export function vaultInside(file: string, node: IpfsNode | undefined): VaultInside {
  const database = openDatabase(file, { secureDelete: true })
  const index = new VaultIndex(database)
  const contents = new ContentStore(database)
  const commits = new GroupCommit(database)
  const intents = new PinIntents(database, commits)
  const read = (cid: string) => contents.read(cid)
  const outbox = node && new PinOutbox({ intents, node, read, log: pino({ level: 'silent' }) })
  const quota = { byteCount: 1e9, entryCount: 1e9 }
  const vault = new Vault({ index, contents, commits, intents, outbox, quota })
  return {
    database,
    index,
    contents,
    intents,
    node,
    outbox,
    vault,
    close: async () => {
      await outbox?.stop()
      database.close()
    }
  }
}

/** Waits until the node is as wanted. A machine that stands still makes the node look away for a second, so it asks again. */
export async function drained({ outbox, intents }: VaultInside, milliseconds: number): Promise<void> {
  const until = performance.now() + milliseconds
  while (intents.countOpen() > 0 && performance.now() < until) {
    await outbox?.drain(1_000)
    await sleep(20)
  }
}

/** All that a vault's file says, for comparison; of bytes their hash. */
export function dumpOf(database: SqliteFile): string {
  const tables = ['owners', 'entries', 'blocks', 'vault_pins']
  const rows = tables.map((table) => database.prepare(`SELECT * FROM ${table}`).all())
  return JSON.stringify(rows, (_name, value: unknown) =>
    typeof value === 'object' && value !== null && 'data' in value
      ? createHash('sha256')
          .update(Buffer.from(value.data as number[]))
          .digest('hex')
      : value
  )
}

/** What is wrong inside a vault's file: entries without content, blocks without entries, counters. Empty when all is well. */
export function faultsInside({ database, contents }: Pick<VaultInside, 'database' | 'contents'>): string[] {
  const strings = (sql: string): string[] => database.prepare<[], string>(sql).pluck().all()
  const held = strings('SELECT DISTINCT cid FROM entries')
  const used = new Map<string, number>()
  for (const cid of held) {
    const { blocks } = contentOf(contents.read(cid) ?? new Uint8Array())
    for (const block of blocks) used.set(block.cid, (used.get(block.cid) ?? 0) + 1)
  }
  const kept = database.prepare<[], { cid: string; uses: number }>('SELECT cid, uses FROM blocks').all()
  return [
    ...held.filter((cid) => contents.read(cid) === undefined).map((cid) => `content lost: ${cid}`),
    ...kept.filter(({ cid, uses }) => used.get(cid) !== uses).map(({ cid, uses }) => `block with ${uses} uses: ${cid}`),
    ...strings(`SELECT did FROM owners WHERE byte_count <> (SELECT ifnull(sum(byte_count), 0) FROM entries WHERE owner = id)
      OR entry_count <> (SELECT count(*) FROM entries WHERE owner = id)`).map((did) => `counters of ${did}`)
  ]
}
