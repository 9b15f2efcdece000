import type { EntryRemoval, Usage } from '../content-store.js'
import { etagOf, isMet, NO_LIST, stateOf, type Entry, type ListState } from '../list-state.js'
import type { EntryRequest, UploadNeeded } from '../object-writer.js'
import { overQuota } from '../quota.js'
import { errorOf } from '../storage-error.js'
import type { ContentDatabase, Query, Row } from './content-database.js'
import { CONTENT_NAME, KNOWN_CONTENT, REPEAT_ON, type ContentPlacing } from './content-placing.js'
import { EntryChanges } from './entry-changes.js'
import { entryOf, numberOf } from './entry-rows.js'
import type { LooseContents } from './loose-contents.js'
import type { PinChanges } from './pin-changes.js'

/** What a write leaves to be done after its commit. */
export interface WrittenEntry {
  readonly etag: string
  /** Whether the pin of what was written is to change. */
  readonly isPinOpen: boolean
  /** Content that is gone, and whose pin is to change. */
  readonly unpinned: readonly string[]
}

interface Owner extends Usage {
  readonly id: number
}

/** What a transaction looks at before it writes anything, in one round trip. */
interface Found {
  readonly owner: Owner
  readonly list: ListState
  readonly known: Row
  readonly named: readonly (Entry & { readonly isLast: boolean })[]
  readonly isClaimed: boolean
}

const ENTRIES = `SELECT e.number, e.cid, e.byte_count, e.json_byte_count`
const OF_KEY = `FROM ~entries e WHERE e.owner = (SELECT id FROM ~owners WHERE did = $1) AND e.key = $2`

/**
 * Writes and removals of entries: READ COMMITTED transactions that take their locks in one order: the content's name, the
 * owner, the object, the content, entries, the pin, and at last what was let go, where they wait for no content. So they never
 * wait for each other in a circle. The owner's row serialises the writes of one user; content that many have is locked by none
 * for long.
 */
export class EntryWrites {
  readonly #placing: ContentPlacing
  readonly #pins: PinChanges
  readonly #database: ContentDatabase
  readonly #changes: EntryChanges
  readonly #loose: LooseContents
  readonly #lockOwner
  readonly #lockBoth
  readonly #state
  readonly #listState
  readonly #all
  readonly #named

  constructor(database: ContentDatabase, placing: ContentPlacing, pins: PinChanges, loose: LooseContents) {
    this.#database = database
    this.#loose = loose
    this.#changes = new EntryChanges(database)
    this.#placing = placing
    this.#pins = pins
    const { statement } = database
    this.#lockOwner = statement('lock_owner', 'SELECT id FROM ~owners WHERE did = $1 FOR NO KEY UPDATE')
    // Content first: what is inserted is read before an owner is locked, or made.
    this.#lockBoth = statement(
      'lock_content_and_owner',
      `INSERT INTO ~owners AS o (did, byte_count, entry_count)
       SELECT $2, 0, 0 FROM (SELECT pg_catalog.pg_advisory_xact_lock_shared(${CONTENT_NAME})) AS locked
       ON CONFLICT (did) DO UPDATE SET byte_count = o.byte_count RETURNING id, byte_count, entry_count`
    )
    this.#state = statement(
      'entry_state',
      `SELECT ${KNOWN_CONTENT}, l.entry_count, l.hash, pg_catalog.nextval('~entry_numbers') AS number
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
      const { owner, list, known, named, isClaimed } = await this.#find(query, write)
      if (known.denied !== null) throw errorOf({ refused: 'ERR_TAKEN_DOWN' })
      if (!isMet(write, list)) throw errorOf({ refused: 'ERR_PRECONDITION', etag: etagOf(list) })
      const replaced = replacedBy(write, named)
      const refusal = replaced && overQuota(owner, replaced, content, write.quota)
      if (refusal !== undefined) throw errorOf(refusal)
      this.#placing.assertUploaded(content, known, isClaimed)
      const entry = { ...content, number: write.number ?? numberOf(known.number) }
      const released = (replaced ?? []).map(({ cid }) => cid).filter((cid) => cid !== content.cid)
      const [, after, isPinOpen, unpinned] = await Promise.all([
        this.#placing.place(query, content, known, nowSeconds),
        replaced === undefined ? list : this.#changes.change(query, { owner: owner.id, key, list }, replaced, [entry]),
        this.#pins.want(query, content.cid),
        this.#loose.release(query, released, nowSeconds)
      ])
      return { etag: etagOf(after), isPinOpen, unpinned }
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
      if (owner === undefined || removed.length === 0) return { etag: etagOf(list), isPinOpen: false, unpinned: [] }
      const released = removed.map((entry) => entry.cid)
      const [after, unpinned] = await Promise.all([
        this.#changes.change(query, { owner: numberOf(owner.id), key, list }, removed, []),
        this.#loose.release(query, released, nowSeconds)
      ])
      return { etag: etagOf(after), isPinOpen: false, unpinned }
    }
    return this.#database.transaction(work, { repeatOn: REPEAT_ON, isRepeatable })
  }

  /** The locks come first, so that what is read after them is what they protect. */
  async #find(query: Query, { did, key, content, replaces }: EntryRequest): Promise<Found> {
    const { cid } = content
    const names = replaces === 'nothing' || replaces === 'all' ? [cid] : [replaces.cid, cid]
    const [locked, isClaimed, states, entries] = await Promise.all([
      query(this.#lockBoth, [cid, did]),
      this.#placing.claimUpload(query, content),
      query(this.#state, [cid, content.leafHashes, did, key]),
      replaces === 'all' ? query(this.#all, [did, key]) : query(this.#named, [did, key, names])
    ])
    const [owner = {}, known = {}] = [locked.rows[0], states.rows[0]]
    return {
      owner: {
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
