import { postgresDialect, sqliteDialect, createStatements } from 'express-did-auth/server-kit'
import type { Dialect, SqlStatement } from 'express-did-auth/server-kit'

/** Whose tables: relay and vault have their own, also on one database. */
export type TablePrefix = 'relay' | 'vault'

/** Differences between the two engines in statements on contents. */
export interface ContentDialect extends Pick<Dialect, 'schemaPrefix' | 'greatest' | 'deleteRows'> {
  /** Creates statements, each prepared under its name in its group; `~` precedes the names of tables. */
  readonly statements: <K extends string>(group: string, texts: Readonly<Record<K, string>>) => Record<K, SqlStatement>
  /** A condition: a text is one of those in a parameter, which is an array as JSON. */
  readonly isIn: (column: string, parameter: string) => string
  /** A condition: a text is one that a query finds and locks; those that another transaction has are left aside. */
  readonly isFree: (column: string, select: string) => string
  /** Suffix of a query that locks its rows, and skips rows that another transaction has locked. */
  readonly skipLocked: string
  /** Suffix of a query whose rows must not change until the transaction ends. */
  readonly forUpdate: string
  /** Suffix of a query on contents `c` whose rows must not be deleted until the transaction ends. */
  readonly forReference: string
  /**
   * A table of one row; reading it locks the name of the content `$1` until the transaction ends, for writers together
   * or for one that removes it. Undefined if there is only one writer.
   */
  readonly lockContent: ((mode: 'shared' | 'alone') => string) | undefined
  /**
   * A statement that locks the contents `c` of a query and remembers them for the rest of the transaction, except for
   * those that another transaction has locked. Undefined if there is only one writer.
   */
  readonly lockFree: ((select: string) => string) | undefined
  /** A condition: content is one of those that `lockFree` locked, or of those in a parameter where there is none. */
  readonly isLocked: (column: string, parameter: string) => string
  /** A number that no pin of the same content ever had, larger than all before. */
  readonly nextRevision: string
  /** Statements around a deletion that overwrites the deleted bytes, if the engine can. */
  readonly overwriting: { readonly on: SqlStatement; readonly off: SqlStatement } | undefined
}

const createStatementsOn =
  (prefix: string): ContentDialect['statements'] =>
  (group, texts) => {
    const own = Object.entries<string>(texts).map(([name, text]) => [
      name,
      text.replaceAll('~', prefix).replaceAll(/\s+/g, ' ')
    ])
    // The keys are those of the texts.
    return createStatements(`${prefix}${group}_`, Object.fromEntries(own) as typeof texts)
  }

function isInJson(column: string, parameter: string): string {
  return `${column} IN (SELECT value FROM json_each(${parameter}))`
}

export const sqliteContents: ContentDialect = {
  ...sqliteDialect,
  statements: createStatementsOn(''),
  isIn: isInJson,
  isFree: (column, select) => `${column} IN (${select})`,
  skipLocked: '',
  forUpdate: '',
  forReference: '',
  lockContent: undefined,
  lockFree: undefined,
  isLocked: isInJson,
  // Triggers keep the largest.
  nextRevision: "(SELECT number + 1 FROM numbers WHERE name = 'revisions')",
  // Only in a takedown: else it doubles what a deletion writes.
  overwriting: { on: { text: 'PRAGMA secure_delete = ON' }, off: { text: 'PRAGMA secure_delete = OFF' } }
}

/** @param tables - whose */
export function createPostgresContents(tables: TablePrefix): ContentDialect {
  const prefix = `${tables}_`
  const isIn = (column: string, array: string): string =>
    `${column} = ANY(ARRAY(SELECT pg_catalog.jsonb_array_elements_text(CAST(${array} AS jsonb))))`
  return {
    ...postgresDialect,
    statements: createStatementsOn(prefix),
    isIn,
    isFree: (column, select) => `${column} = ANY(ARRAY(${select} FOR UPDATE SKIP LOCKED))`,
    skipLocked: 'FOR UPDATE SKIP LOCKED',
    forUpdate: 'FOR NO KEY UPDATE',
    forReference: 'FOR KEY SHARE OF c',
    lockContent: (mode) => {
      const lock = mode === 'shared' ? 'pg_catalog.pg_advisory_xact_lock_shared' : 'pg_catalog.pg_advisory_xact_lock'
      return `(SELECT ${lock}(pg_catalog.hashtextextended('${prefix}' || CAST($1 AS text), 0))) AS locked`
    },
    lockFree: (select) => `SELECT pg_catalog.set_config('did_auth.locked', coalesce(CAST((SELECT
      pg_catalog.jsonb_agg(cid) FROM (${select} FOR UPDATE OF c SKIP LOCKED) found) AS text), '[]'), true)`,
    isLocked: (column) => isIn(column, "pg_catalog.current_setting('did_auth.locked')"),
    nextRevision: `pg_catalog.nextval('${prefix}revisions')`,
    overwriting: undefined
  }
}

/** Texts as a parameter of `isIn`. */
export function list(texts: readonly string[]): string {
  return JSON.stringify(texts)
}
