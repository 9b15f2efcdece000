import { verb, type SqlRow } from 'express-did-auth/server-kit'
import { createStatements, type ContentQuery } from './content-dialect.js'
import { isUnused } from './content-steps.js'

/** Rows in a page. */
const PAGE_ROWS = 500

/** A page of items, and the key after which the next page begins; undefined after the last page. */
export type Page<T, Key> = { readonly items: readonly T[]; readonly next: Key | undefined }

/** Sources of rows that are read in pages: table, columns of the order, and optionally a condition on rows `c`. */
const ROW_SOURCES = {
  denied: ['~denied', 'cid'],
  files: ['~files', 'cid'],
  lists: ['~lists', 'did,key'],
  pins: ['~pins', 'cid'],
  /** Lists without an owner, which cannot be read. */
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
    `c.state <> 'unpin' AND ${isUnused('c')} AND NOT EXISTS (SELECT 1 FROM ~contents stored WHERE stored.cid = c.cid)`
  ]
} as const
/** Name of a row source. */
export type RowsName = keyof typeof ROW_SOURCES

const listColumns = (name: RowsName): string[] => ROW_SOURCES[name][1].split(',')

/** Statements that read pages of rows. */
export const pageStatements = createStatements('page', () => {
  const createPageText = ([table, order, condition]: readonly [string, string, string?]): string => {
    const after = order === 'cid' ? '$1' : '$1, $2'
    const selected = condition === undefined ? '*' : `${order}, CASE WHEN ${condition} THEN 1 ELSE 0 END AS is_found`
    return `SELECT ${selected} FROM ${table} c WHERE (${order}) > (${after}) ORDER BY ${order} LIMIT ${PAGE_ROWS}`
  }
  const texts = Object.entries(ROW_SOURCES).map(([name, rows]) => [name, createPageText(rows)])
  return Object.fromEntries(texts) as Record<RowsName, string>
})

/** Reads a page of rows. Pages are small, because servers may be running. The last is empty. */
export const readPage = verb(
  'read',
  async (query: ContentQuery, name: RowsName, after: readonly unknown[]): Promise<Page<SqlRow, unknown[]>> => {
    const { rows } = await query(pageStatements[name], after)
    const last = rows.at(-1)
    const next = last && listColumns(name).map((column) => last[column])
    return { items: rows.filter(({ is_found }) => is_found !== 0), next }
  }
)

/** Reader of a page, in a store. */
export interface PageReader {
  readonly readPage: (name: RowsName, after: readonly unknown[]) => Promise<Page<SqlRow, unknown[]>>
}

/** Reads all rows of a source, in pages. */
export function readRows({ readPage }: PageReader, name: RowsName) {
  const start = listColumns(name).map((): unknown => '')
  return readPages(start, (after: readonly unknown[]) => readPage(name, after))
}

/** Reads all pages, each beginning after the end of the previous one. */
export async function* readPages<P extends Page<unknown, unknown>, Key>(
  start: NoInfer<Key>,
  read: (after: Key) => Promise<P & { readonly next: Key | undefined }>
): AsyncGenerator<P, void> {
  for (let after: Key | undefined = start; after !== undefined;) {
    const page: P & { readonly next: Key | undefined } = await read(after)
    yield page
    after = page.next
  }
}
