import { createReadStream } from 'node:fs'
import type { PostgresDatabase, SqlResult } from 'express-did-auth/server-kit'
import type { ObjectStore } from '../object-store.js'
import { storeFailure } from '../storage-error.js'
import { inLeaves, LEAF_BYTES } from '../unixfs-blocks.js'
import { postgresContents, type TablePrefix } from './content-dialect.js'

const NAMES = 1_000

/**
 * Objects as rows of pieces, for instances that share no disk and have no other store of objects. Each piece is read by
 * a statement of its own, so that no connection waits for a slow reader, and no more than a piece is in memory.
 */
export class PostgresObjectStore implements ObjectStore {
  readonly breaksReaders = true
  readonly #database: PostgresDatabase
  readonly #statements: ReturnType<typeof statementsOf>
  readonly #open: () => Promise<unknown>

  /** @param open - brings the tables up to date */
  constructor(database: PostgresDatabase, tables: TablePrefix, open: () => Promise<unknown> = () => Promise.resolve()) {
    this.#database = database
    this.#statements = statementsOf(tables)
    this.#open = open
  }

  async put(name: string, file: string): Promise<void> {
    const { rowCount } = await this.#query('begin', [name], false)
    if (rowCount === 0) throw Object.assign(new Error(`there is an object ${name}`), { code: 'EEXIST' })
    let number = 0
    for await (const piece of inLeaves(createReadStream(file, { highWaterMark: LEAF_BYTES }))) {
      await this.#query('addPiece', [name, number, piece])
      number += 1
    }
    if (number === 0) await this.#query('addPiece', [name, 0, Buffer.alloc(0)])
    const { rowCount: found } = await this.#query('finish', [name])
    if (found === 0) throw Object.assign(new Error(`the object ${name} was deleted`), { code: 'ENOENT' })
  }

  async *read(name: string): AsyncIterable<Uint8Array> {
    let bytes = await this.#bytes('open', [name])
    if (bytes === undefined) throw Object.assign(new Error(`there is no object ${name}`), { code: 'ENOENT' })
    for (let number = 1; bytes !== undefined; number += 1) {
      yield bytes
      // A shorter one is the last.
      if (bytes.length < LEAF_BYTES) return
      bytes = await this.#bytes('piece', [name, number])
    }
  }

  async delete(name: string): Promise<void> {
    await this.#query('delete', [name])
  }

  async *list(): AsyncIterable<string> {
    for (let after = ''; ;) {
      const { rows } = await this.#query('list', [after])
      const names = rows.map(({ name }) => String(name))
      yield* names
      if (names.length < NAMES) return
      after = names.at(-1) ?? ''
    }
  }

  async #bytes(name: StatementName, values: readonly unknown[]): Promise<Uint8Array | undefined> {
    const [row] = (await this.#query(name, values)).rows
    return row?.bytes instanceof Uint8Array ? row.bytes : undefined
  }

  /** @throws ServerError ERR_STORAGE_FULL, ERR_STORAGE; DidAuthError ERR_BUSY */
  async #query(name: StatementName, values: readonly unknown[], isRepeatable = true): Promise<SqlResult> {
    try {
      await this.#open()
      return await this.#database.query(this.#statements[name], values, { isRepeatable })
    } catch (error) {
      throw storeFailure(error)
    }
  }
}

type StatementName = keyof ReturnType<typeof statementsOf>

function statementsOf(tables: TablePrefix) {
  return postgresContents(tables).statements('object', {
    begin: 'INSERT INTO ~objects (name) VALUES ($1) ON CONFLICT DO NOTHING',
    addPiece: 'INSERT INTO ~object_pieces (object, number, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
    finish: 'UPDATE ~objects SET is_whole = true WHERE name = $1',
    open: `SELECT p.bytes FROM ~objects o JOIN ~object_pieces p ON p.object = o.name AND p.number = 0
      WHERE o.name = $1 AND o.is_whole`,
    piece: 'SELECT bytes FROM ~object_pieces WHERE object = $1 AND number = $2',
    delete: 'DELETE FROM ~objects WHERE name = $1',
    list: `SELECT name FROM ~objects WHERE name > $1 ORDER BY name LIMIT ${NAMES}`
  })
}
