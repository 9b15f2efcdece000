import type { SqlRow } from 'express-did-auth/server-kit'
import { codeOf } from '../config/startup-error.js'
import { ServerError } from '../http/server-error.js'
import type { EntryPlace, NewContent } from './content-store.js'
import { placeOf } from './sql/list-state.js'
import { fileOf } from './sql/file-verbs.js'
import { rowsOf, type RowsName } from './sql/page-verbs.js'
import type { OpenContentStore } from './sql/sql-content-store.js'
import { newContentOf } from './unixfs-blocks.js'

/** What became of entries and files. */
export interface CopiedContents {
  copied: number
  /** They were there already. */
  known: number
  /** Their content was taken down where they were to go. */
  refused: number
  /** Content that is lost or damaged. */
  readonly missing: Set<string>
  readonly damagedLists: readonly EntryPlace[]
}

/** From where to where. */
export interface CopyParts {
  /** Nothing writes to it meanwhile. */
  readonly source: Pick<OpenContentStore, 'store' | 'inspection'>
  readonly target: Pick<OpenContentStore, 'store' | 'inspection'>
  readonly nowSeconds: number
  /** Gets how many entries and files were copied so far, now and then. */
  readonly onProgress?: (count: number) => void
}

/** What is under way at once: enough that a trip to the database and the disk do not wait for each other. */
const PARALLEL = 8
const PROGRESS = 10_000

/**
 * Copies all that a store has to another one, which servers may use at the same time. Entries keep their numbers, and
 * so lists keep their order and their ETags. Each content is verified by its cid. Run again, it adds what is new.
 *
 * @throws as the verbs of the stores; nothing that was copied until then is lost
 */
export async function copyContents({ source, target, nowSeconds, onProgress }: CopyParts): Promise<CopiedContents> {
  const { inspection } = source
  const { damagedLists } = await inspection.recount({ isDryRun: true })
  const damaged = new Set(damagedLists.map(({ did, key }) => `${did} ${key}`))
  const outcome: CopiedContents = { copied: 0, known: 0, refused: 0, missing: new Set(), damagedLists }

  /** Does something with each row of a table, with several of them at once. */
  const eachRow = async (table: RowsName, work: (row: SqlRow) => Promise<void>): Promise<void> => {
    for await (const { items } of rowsOf(inspection, table)) {
      // Of many users at once, because writes of one wait for each other.
      const left = items.toSorted((one, other) => (String(one.key) < String(other.key) ? -1 : 1)).values()
      const run = async (): Promise<void> => {
        for (const row of left) await work(row)
      }
      await Promise.all(Array.from({ length: PARALLEL }, run))
    }
  }

  const see = (what: 'copied' | 'known'): void => {
    outcome[what] += 1
    const count = outcome.copied + outcome.known
    if (count % PROGRESS === 0) onProgress?.(count)
  }
  const copyContent = async (cid: string, add: (content: NewContent) => Promise<void>): Promise<void> => {
    try {
      const [found] = await source.store.readContents([cid])
      if (found === undefined) throw new ServerError('ERR_CONTENT_MISSING')
      await add(newContentOf(await found.bytes()))
      see('copied')
    } catch (error) {
      const code = codeOf(error)
      if (code === 'ERR_CONTENT_MISSING') outcome.missing.add(cid)
      else if (code === 'ERR_TAKEN_DOWN') outcome.refused += 1
      else throw error
    }
  }

  await target.inspection.reserveNumbers(await inspection.lastNumber())
  await eachRow('denied', async ({ cid, reason, at }) => {
    if (!(await target.store.isTakenDown(String(cid))))
      await target.store.takeDown(String(cid), String(reason), Number(at))
  })
  await eachRow('lists', async (row) => {
    const place = placeOf(row)
    if (damaged.has(`${place.did} ${place.key}`)) return
    const entries = await inspection.numberedEntries(place)
    const { entries: there } = await target.store.listEntries(place)
    const known = new Set(there.map(({ cid }) => cid))
    for (const { cid, number } of entries) {
      if (known.has(cid)) see('known')
      else await copyContent(cid, (content) => target.inspection.importEntry({ ...place, number, content }))
    }
  })
  await eachRow('files', async (row) => {
    const { cid, expiresAtSeconds } = fileOf(row)
    if (expiresAtSeconds <= nowSeconds) return
    const there = (await target.store.isTakenDown(cid)) ? undefined : await target.store.findFile(cid, nowSeconds)
    if (there !== undefined && there.expiresAtSeconds >= expiresAtSeconds) see('known')
    else await copyContent(cid, (content) => target.inspection.importFile(content, expiresAtSeconds))
  })
  // At last, because content that is not there is not pinned.
  for await (const { items } of rowsOf(inspection, 'pins')) await target.inspection.importPins(items)
  return outcome
}
