import { createReadStream } from 'node:fs'
import type { PostgresDatabase, SqlResult, SqlStatement } from 'express-did-auth/stores/postgres'
import type { ObjectStore } from '../content-store.js'
import { toVerbError } from '../storage-error.js'
import { splitIntoLeaves, LEAF_BYTES } from '../unixfs-blocks.js'
import { createPostgresContents, createStatements, createTranslator, type TablePrefix } from './content-dialect.js'
import { isBytes } from 'express-did-auth/server-kit'

/** Names in a page of the list. */
const PAGE_NAMES = 1_000

/** Statements of objects, which only PostgreSQL runs. */
export const objectStatements = createStatements('object', () => ({
  begin: 'INSERT INTO ~objects (name) VALUES ($1) ON CONFLICT DO NOTHING',
  addPiece: 'INSERT INTO ~object_pieces (object, number, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
  finish: 'UPDATE ~objects SET is_whole = true WHERE name = $1',
  open: `SELECT p.bytes FROM ~objects o JOIN ~object_pieces p ON p.object = o.name AND p.number = 0
    WHERE o.name = $1 AND o.is_whole`,
  piece: 'SELECT bytes FROM ~object_pieces WHERE object = $1 AND number = $2',
  delete: 'DELETE FROM ~objects WHERE name = $1',
  list: `SELECT name FROM ~objects WHERE name > $1 ORDER BY name LIMIT ${PAGE_NAMES}`
}))

/**
 * Creates an object store in PostgreSQL, for instances that share no disk. An object is stored as pieces, one per row.
 * Each piece is read by its own statement, so that no connection waits for a slow reader, and only one piece is in
 * memory.
 *
 * @param open - migrates or checks the tables before the first statement
 * @throws ServerError ERR_STORAGE_FULL, ERR_STORAGE; DidAuthError ERR_BUSY, from each method
 */
export function createPostgresObjectStore(
  database: Pick<PostgresDatabase, 'query'>,
  tables: TablePrefix,
  open: () => Promise<unknown> = () => Promise.resolve()
): ObjectStore {
  const translate = createTranslator(createPostgresContents(tables))

  async function query(statement: SqlStatement, values: readonly unknown[], isRepeatable = true): Promise<SqlResult> {
    try {
      await open()
      return await database.query(translate(statement), values, { isRepeatable })
    } catch (error) {
      throw toVerbError(error)
    }
  }

  async function readBytes(statement: SqlStatement, values: readonly unknown[]): Promise<Uint8Array | undefined> {
    const [row] = (await query(statement, values)).rows
    return isBytes(row?.bytes) ? row.bytes : undefined
  }

  return {
    breaksReaders: true,

    async put(name, file) {
      const { rowCount } = await query(objectStatements.begin, [name], false)
      if (rowCount === 0) throw Object.assign(new Error(`the object ${name} already exists`), { code: 'EEXIST' })
      let number = 0
      for await (const piece of splitIntoLeaves(createReadStream(file, { highWaterMark: LEAF_BYTES }))) {
        await query(objectStatements.addPiece, [name, number, piece])
        number += 1
      }
      if (number === 0) await query(objectStatements.addPiece, [name, 0, Buffer.alloc(0)])
      const { rowCount: finished } = await query(objectStatements.finish, [name])
      if (finished === 0) throw Object.assign(new Error(`the object ${name} was deleted`), { code: 'ENOENT' })
    },

    async *read(name) {
      let bytes = await readBytes(objectStatements.open, [name])
      if (bytes === undefined) throw Object.assign(new Error(`the object ${name} does not exist`), { code: 'ENOENT' })
      for (let number = 1; bytes !== undefined; number += 1) {
        yield bytes
        // Only the last piece is shorter.
        if (bytes.length < LEAF_BYTES) return
        bytes = await readBytes(objectStatements.piece, [name, number])
      }
    },

    async delete(name) {
      await query(objectStatements.delete, [name])
    },

    async *list() {
      for (let after: string | undefined = ''; after !== undefined;) {
        const names: string[] = (await query(objectStatements.list, [after])).rows.map((row) => String(row.name))
        yield* names
        after = names.at(-1)
      }
    }
  }
}
