import { createReadStream } from 'node:fs'
import type { ObjectStore } from '../object-store.js'
import { LEAF_BYTES } from '../unixfs-blocks.js'
import type { ContentDatabase } from './content-database.js'

const NAMES = 1_000

const REPEATABLE = { isRepeatable: true }

/**
 * Objects as rows of pieces, for instances that share no disk and have no other store of objects. Each piece is read by a
 * statement of its own, so that no connection waits for a slow reader, and no more than a piece is in memory.
 */
export class PostgresObjectStore implements ObjectStore {
  readonly breaksReaders = true
  readonly #database: ContentDatabase
  readonly #begin
  readonly #addPiece
  readonly #finish
  readonly #open
  readonly #piece
  readonly #delete
  readonly #list

  constructor(database: ContentDatabase) {
    this.#database = database
    const { statement } = database
    this.#begin = statement('begin_object', 'INSERT INTO ~objects (name) VALUES ($1) ON CONFLICT DO NOTHING')
    this.#addPiece = statement(
      'add_piece',
      'INSERT INTO ~object_pieces (object, number, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING'
    )
    this.#finish = statement('finish_object', 'UPDATE ~objects SET is_whole = true WHERE name = $1')
    this.#open = statement(
      'open_object',
      `SELECT p.bytes FROM ~objects o JOIN ~object_pieces p ON p.object = o.name AND p.number = 0
       WHERE o.name = $1 AND o.is_whole`
    )
    this.#piece = statement('read_piece', 'SELECT bytes FROM ~object_pieces WHERE object = $1 AND number = $2')
    this.#delete = statement('delete_object', 'DELETE FROM ~objects WHERE name = $1')
    this.#list = statement('list_objects', `SELECT name FROM ~objects WHERE name > $1 ORDER BY name LIMIT ${NAMES}`)
  }

  async put(name: string, file: string): Promise<void> {
    const { rowCount } = await this.#database.query(this.#begin, [name])
    if (rowCount === 0) throw Object.assign(new Error(`there is an object ${name}`), { code: 'EEXIST' })
    let number = 0
    for await (const piece of piecesOf(file)) {
      await this.#database.query(this.#addPiece, [name, number, piece], REPEATABLE)
      number += 1
    }
    const { rowCount: found } = await this.#database.query(this.#finish, [name], REPEATABLE)
    if (found === 0) throw Object.assign(new Error(`the object ${name} was deleted`), { code: 'ENOENT' })
  }

  async *read(name: string): AsyncIterable<Uint8Array> {
    let bytes = await this.#bytes(this.#open, [name])
    if (bytes === undefined) throw Object.assign(new Error(`there is no object ${name}`), { code: 'ENOENT' })
    for (let number = 1; bytes !== undefined; number += 1) {
      yield bytes
      // A shorter one is the last.
      if (bytes.length < LEAF_BYTES) return
      bytes = await this.#bytes(this.#piece, [name, number])
    }
  }

  async delete(name: string): Promise<void> {
    await this.#database.query(this.#delete, [name], REPEATABLE)
  }

  async *list(): AsyncIterable<string> {
    for (let after = ''; ;) {
      const { rows } = await this.#database.query(this.#list, [after], REPEATABLE)
      const names = rows.map(({ name }) => String(name))
      yield* names
      if (names.length < NAMES) return
      after = names.at(-1) ?? ''
    }
  }

  async #bytes(...[statement, values]: Parameters<ContentDatabase['query']>): Promise<Uint8Array | undefined> {
    const [row] = (await this.#database.query(statement, values, REPEATABLE)).rows
    return row?.bytes instanceof Uint8Array ? row.bytes : undefined
  }
}

/** Pieces of a file, each 256 KiB long but the last; one piece at least. */
async function* piecesOf(file: string): AsyncIterable<Buffer> {
  let rest: Buffer = Buffer.alloc(0)
  let isEmpty = true
  for await (const chunk of createReadStream(file, { highWaterMark: LEAF_BYTES })) {
    // Without an encoding, a stream of a file gives buffers.
    rest = rest.length === 0 ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer])
    for (; rest.length >= LEAF_BYTES; rest = rest.subarray(LEAF_BYTES)) {
      isEmpty = false
      yield rest.subarray(0, LEAF_BYTES)
    }
  }
  if (rest.length > 0 || isEmpty) yield rest
}
