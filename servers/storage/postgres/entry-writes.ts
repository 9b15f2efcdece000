import type { EntryRemoval, Usage } from '../content-store.js'
import { etagOf, isMet, NO_LIST, stateOf, type Entry, type ListState } from '../list-state.js'
import type { EntryRequest, UploadNeeded } from '../object-writer.js'
import { overQuota } from '../quota.js'
import { errorOf } from '../storage-error.js'
import type { ContentDatabase, Query, Row } from './content-database.js'
import { KNOWN_CONTENT, type ContentPlacing } from './content-placing.js'
import { EntryChanges } from './entry-changes.js'
import { entryOf, numberOf } from './entry-rows.js'
import type { PinChanges } from './pin-changes.js'

/** What a write leaves to be done after its commit. */
export interface WrittenEntry {
  readonly etag: string
  /** Whether the pin of what was written is to change. */
  readonly isPinOpen: boolean
  /** Content that may be unused now. */
  readonly released: readonly string[]
}

interface Owner extends Usage {
  readonly id: number
}

/** What a transaction looks at before it writes anything, in one round trip. */
interface Found {
  readonly owner: Owner | undefined
  readonly list: ListState
  readonly known: Row
  readonly named: readonly (Entry & { readonly isLast: boolean })[]
  readonly isClaimed: boolean
}

const ENTRIES = `SELECT e.number, e.cid, e.byte_count, e.json_byte_count`
const OF_KEY = `FROM ~entries e WHERE e.owner = (SELECT id FROM ~owners WHERE did = $1) AND e.key = $2`

/**
 * Writes and removals of entries: READ COMMITTED transactions that take their locks in one order: the content's name, the
 * owner, the object, the content, entries, what was let go (in the order of cids), the pin. So they never wait for each
 * other in a circle. The owner's row serialises the writes of one user; content that many have is locked by none for long.
 */
export class EntryWrites {
  readonly #placing: ContentPlacing
  readonly #pins: PinChanges
  readonly #database: ContentDatabase
  readonly #changes: EntryChanges
  readonly #lockOwner
  readonly #addOwner
  readonly #state
  readonly #listState
  readonly #all
  readonly #named

  constructor(database: ContentDatabase, placing: ContentPlacing, pins: PinChanges) {
    this.#database = database
    this.#changes = new EntryChanges(database)
    this.#placing = placing
    this.#pins = pins
    const { statement } = database
    this.#lockOwner = statement(
      'lock_owner',
      'SELECT id, byte_count, entry_count FROM ~owners WHERE did = $1 FOR NO KEY UPDATE'
    )
    this.#addOwner = statement(
      'add_owner',
      'INSERT INTO ~owners (did, byte_count, entry_count) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING'
    )
    this.#state = statement(
      'entry_state',
      `SELECT ${KNOWN_CONTENT}, l.entry_count, l.hash, nextval('~entry_numbers') AS number
       FROM (SELECT 1) one LEFT JOIN ~owners o ON o.did = $3 LEFT JOIN ~lists l ON l.owner = o.id AND l.key = $4
       LEFT JOIN ~contents c ON c.cid = $1`
    )
    this.#listState = statement(
      'list_state',
      'SELECT entry_count, hash FROM ~lists WHERE owner = (SELECT id FROM ~owners WHERE did = $1) AND key = $2'
    )
    this.#all = statement('entries_of_key', `${ENTRIES}, false AS is_last ${OF_KEY}`)
    this.#named = statement(
      'entries_named',
      `${ENTRIES}, NOT EXISTS (SELECT 1 FROM ~entries later WHERE later.owner = e.owner AND later.key = e.key
         AND later.number > e.number) AS is_last ${OF_KEY} AND e.cid = ANY($3)`
    )
  }

  /**
   * @param write - with the number that the entry has already, when it comes from elsewhere
   * @throws ServerError ERR_TAKEN_DOWN, ERR_PRECONDITION, ERR_STORAGE_FULL, ERR_STORAGE
   */
  async write(
    write: EntryRequest & { readonly number?: number },
    nowSeconds: number
  ): Promise<WrittenEntry | UploadNeeded> {
    const { content, key } = write
    // A condition that held before the first time does not hold after it.
    const isRepeatable = write.ifMatch === undefined && write.ifNoneMatch === undefined
    return this.#placing.run(content, nowSeconds, isRepeatable, async (query) => {
      const { owner, list, known, named, isClaimed } = await this.#findForWrite(query, write)
      if (known.denied !== null) throw errorOf({ refused: 'ERR_TAKEN_DOWN' })
      if (!isMet(write, list)) throw errorOf({ refused: 'ERR_PRECONDITION', etag: etagOf(list) })
      const replaced = replacedBy(write, named)
      const refusal = replaced && overQuota(owner, replaced, content, write.quota)
      if (refusal !== undefined) throw errorOf(refusal)
      this.#placing.assertUploaded(content, known, isClaimed)
      const entry = { ...content, number: write.number ?? numberOf(known.number) }
      const [, after, isPinOpen] = await Promise.all([
        this.#placing.place(query, content, known, nowSeconds),
        replaced === undefined
          ? list
          : this.#changes.change(query, { owner: owner.id, key, list }, replaced, [entry], nowSeconds),
        this.#pins.want(query, content.cid)
      ])
      const released = (replaced ?? []).map(({ cid }) => cid).filter((cid) => cid !== content.cid)
      return { etag: etagOf(after), isPinOpen, released }
    })
  }

  /** @throws ServerError ERR_PRECONDITION, ERR_STORAGE_FULL, ERR_STORAGE */
  async remove(removal: EntryRemoval, nowSeconds: number): Promise<WrittenEntry> {
    const { did, key, cid } = removal
    const isRepeatable = removal.ifMatch === undefined && removal.ifNoneMatch === undefined
    const work = async (query: Query): Promise<WrittenEntry> => {
      const [locked, states, found] = await Promise.all([
        query(this.#lockOwner, [did]),
        query(this.#listState, [did, key]),
        cid === undefined ? query(this.#all, [did, key]) : query(this.#named, [did, key, [cid]])
      ])
      const [owner, state] = [locked.rows[0], states.rows[0]]
      const list = state === undefined ? NO_LIST : stateOf(state)
      if (!isMet(removal, list)) throw errorOf({ refused: 'ERR_PRECONDITION', etag: etagOf(list) })
      const removed = found.rows.map(entryOf)
      if (owner === undefined || removed.length === 0) return { etag: etagOf(list), isPinOpen: false, released: [] }
      const after = await this.#changes.change(query, { owner: numberOf(owner.id), key, list }, removed, [], nowSeconds)
      return { etag: etagOf(after), isPinOpen: false, released: removed.map((entry) => entry.cid) }
    }
    return this.#database.transaction(work, { isRepeatable })
  }

  async #findForWrite(query: Query, write: EntryRequest): Promise<Found & { readonly owner: Owner }> {
    const found = await this.#find(query, write)
    if (found.owner !== undefined) return { ...found, owner: found.owner }
    await query(this.#addOwner, [write.did])
    const { owner, ...rest } = await this.#find(query, write)
    if (owner === undefined) throw errorOf({ refused: 'ERR_STORAGE', detail: 'the owner is not there' })
    // The upload is claimed only once.
    return { ...rest, owner, isClaimed: found.isClaimed }
  }

  /** The locks come first, so that what is read after them is what they protect. */
  async #find(query: Query, { did, key, content, replaces }: EntryRequest): Promise<Found> {
    const { cid } = content
    const names = replaces === 'nothing' || replaces === 'all' ? [cid] : [replaces.cid, cid]
    const [, locked, isClaimed, states, entries] = await Promise.all([
      this.#placing.lock(query, content),
      query(this.#lockOwner, [did]),
      this.#placing.claimUpload(query, content),
      query(this.#state, [cid, content.leafHashes, did, key]),
      replaces === 'all' ? query(this.#all, [did, key]) : query(this.#named, [did, key, names])
    ])
    const [owner, known = {}] = [locked.rows[0], states.rows[0]]
    return {
      owner: owner && {
        id: numberOf(owner.id),
        byteCount: numberOf(owner.byte_count),
        entryCount: numberOf(owner.entry_count)
      },
      list: known.hash === null || known.hash === undefined ? NO_LIST : stateOf(known),
      known,
      named: entries.rows.map((row) => ({ ...entryOf(row), isLast: row.is_last === true })),
      isClaimed
    }
  }
}

/** Which entries a write takes the place of; undefined when the list stays as it is. */
function replacedBy({ content, replaces }: EntryRequest, named: Found['named']): Found['named'] | undefined {
  if (replaces === 'nothing') return named.length === 0 ? [] : undefined
  const [only] = named
  const isSame = named.length === 1 && only?.cid === content.cid && (replaces === 'all' || only.isLast)
  return isSame ? undefined : named
}
