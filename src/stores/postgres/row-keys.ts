import type { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { canonicalDid } from '../../protocol/did.js'
import type { PostgresDatabase } from './postgres-database.js'
import { USER_KEY_BYTES } from './schema.js'

const FIND = { name: 'did_auth_find_service', text: 'SELECT id FROM did_auth_services WHERE url = $1' }
const ADD = {
  name: 'did_auth_add_service',
  text: 'INSERT INTO did_auth_services (url) VALUES ($1) ON CONFLICT (url) DO NOTHING'
}

/** The numbers by which rows name services. They never change, so that each is read once. */
export class ServiceIds {
  readonly #database: PostgresDatabase
  readonly #ids = new Map<string, Promise<number>>()

  constructor(database: PostgresDatabase) {
    this.#database = database
  }

  of(service: string): Promise<number> {
    const known = this.#ids.get(service)
    if (known !== undefined) return known
    const id = this.#read(service)
    this.#ids.set(service, id)
    id.catch(() => this.#ids.delete(service))
    return id
  }

  async #read(service: string): Promise<number> {
    const options = { isRepeatable: true }
    // Looked for first: an insert that finds the row there would use up a number.
    const found = await this.#database.query(FIND, [service], options)
    if (found.rows[0] !== undefined) return Number(found.rows[0].id)
    await this.#database.query(ADD, [service], options)
    const added = await this.#database.query(FIND, [service], options)
    return Number(added.rows[0]?.id)
  }
}

/** The user in keys of rows: shorter than a DID, and of one length. */
export function userKeyOf(did: string): Buffer {
  return createHash('sha256').update(canonicalDid(did)).digest().subarray(0, USER_KEY_BYTES)
}
