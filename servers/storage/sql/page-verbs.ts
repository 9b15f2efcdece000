import type { SqlQuery, SqlRow, VerbMethods } from 'express-did-auth/server-kit'
import type { ContentDialect } from './content-dialect.js'
import { isUnused } from './content-steps.js'

const ROWS = 500

/** A page of items, and the place where the next page begins; undefined after the last page. */
export type Page<T, Place> = { readonly items: readonly T[]; readonly next: Place | undefined }

/** Rows that are read in pages: their table, the columns of their order, and optionally a condition. */
const ROWS_OF = {
  denied: ['~denied', 'cid'],
  files: ['~files', 'cid'],
  lists: ['~lists', 'did,key'],
  pins: ['~pins', 'cid'],
  /** Lists that can no longer be read, because their owner is lost. */
  lostLists: ['~lists', 'did,key', 'NOT EXISTS (SELECT 1 FROM ~owners o WHERE o.did = c.did)'],
  unusedContents: [
    '~contents',
    'cid',
    `${isUnused('c')} AND NOT EXISTS (SELECT 1 FROM ~unreferenced u WHERE u.cid = c.cid)`
  ],
  missingPins: [
    '~contents',
    'cid',
    `NOT EXISTS (SELECT 1 FROM ~pins p WHERE p.cid = c.cid AND p.state <> 'unpin') AND NOT (${isUnused('c')})`
  ],
  surplusPins: [
    '~pins',
    'cid',
    `c.state <> 'unpin' AND ${isUnused('c')} AND NOT EXISTS (SELECT 1 FROM ~contents there WHERE there.cid = c.cid)`
  ]
} as const
export type RowsName = keyof typeof ROWS_OF

const listColumns = (name: RowsName): string[] => ROWS_OF[name][1].split(',')

/** Creates the verb that reads pages of rows. It is short, because servers may be running. The last page is empty. */
export function createPageVerbs({ statements }: ContentDialect) {
  const createPageText = ([table, order, isFound]: readonly [string, string, string?]): string => {
    const after = order === 'cid' ? '$1' : '$1, $2'
    const selected = isFound === undefined ? '*' : `${order}, CASE WHEN ${isFound} THEN 1 ELSE 0 END AS is_found`
    return `SELECT ${selected} FROM ${table} c WHERE (${order}) > (${after}) ORDER BY ${order} LIMIT ${ROWS}`
  }
  const texts = Object.entries(ROWS_OF).map(([name, rows]) => [name, createPageText(rows)])
  const s = statements('page', Object.fromEntries(texts) as Record<RowsName, string>)
  const reads = {
    async readPage(query: SqlQuery, name: RowsName, after: readonly unknown[]): Promise<Page<SqlRow, unknown[]>> {
      const { rows } = await query(s[name], after)
      const last = rows.at(-1)
      const next = last && listColumns(name).map((column) => last[column])
      return { items: rows.filter(({ is_found }) => is_found !== 0), next }
    }
  }
  return { reads }
}

/** All rows of a name, in pages. */
export function readRows({ readPage }: VerbMethods<ReturnType<typeof createPageVerbs>['reads']>, name: RowsName) {
  const start = listColumns(name).map((): unknown => '')
  return readPages(start, (after: readonly unknown[]) => readPage(name, after))
}

/** All pages, each from the place where the one before ended. */
export async function* readPages<P extends Page<unknown, unknown>, Place>(
  first: NoInfer<Place>,
  read: (after: Place) => Promise<P & { readonly next: Place | undefined }>
): AsyncGenerator<P, void> {
  for (let after: Place | undefined = first; after !== undefined;) {
    const page: P & { readonly next: Place | undefined } = await read(after)
    yield page
    after = page.next
  }
}
