import { postgresDialect, sqliteDialect } from 'express-did-auth/server-kit'
import type { Dialect, RunVerb, SqlStatement, VerbQuery } from 'express-did-auth/server-kit'

/** Server that owns the tables. Relay and vault have separate tables, even in one database. */
export type TablePrefix = 'relay' | 'vault'

/** Parts of statements on contents that differ between SQLite and PostgreSQL. */
export interface ContentDialect extends Pick<Dialect, 'schemaPrefix' | 'greatest'> {
  /** Prefix of the names of tables and statements. */
  readonly prefix: string
  /** Whether the engine has only one writer, so that transactions need no locks. */
  readonly hasOneWriter: boolean
  /** A condition: the column's value is in a parameter, which is a JSON array of texts. */
  readonly isIn: (column: string, parameter: string) => string
  /** A condition: the column's value is in the result of a query, which locks its rows and skips locked ones. */
  readonly isFree: (column: string, select: string) => string
  /** Suffix of a query that locks its rows and skips rows that another transaction has locked. */
  readonly skipLocked: string
  /** Suffix of a query whose rows must not change until the transaction ends. */
  readonly forUpdate: string
  /** Suffix of a query on contents `c` whose rows must not be deleted until the transaction ends. */
  readonly forReference: string
  /**
   * A subquery of one row. Reading it locks the cid `$1` until the transaction ends: `shared` by several writers, or
   * `exclusive` by one transaction that removes the content.
   */
  readonly lockContent: (mode: 'shared' | 'exclusive') => string
  /**
   * A statement that locks the contents `c` of a query, except for those that another transaction has locked, and
   * stores their cids until the transaction ends.
   */
  readonly lockFree: (select: string) => string
  /** A condition: `lockFree` has locked the content. With one writer: the parameter contains its cid. */
  readonly isLocked: (column: string, parameter: string) => string
  /** A revision for a pin, which is larger than all earlier ones. */
  readonly nextRevision: string
  /** Statements before and after a deletion that overwrites the deleted bytes. Undefined if the engine cannot do it. */
  readonly overwriting: { readonly on: SqlStatement; readonly off: SqlStatement } | undefined
}

/** Query of the verbs of contents. */
export type ContentQuery = VerbQuery<ContentDialect>

/** Runs a verb of contents on the engine of a store. */
export type RunContentVerb = RunVerb<ContentDialect>

function isInJson(column: string, parameter: string): string {
  return `${column} IN (SELECT value FROM json_each(${parameter}))`
}

export const sqliteContents: ContentDialect = {
  ...sqliteDialect,
  prefix: '',
  hasOneWriter: true,
  isIn: isInJson,
  isFree: (column, select) => `${column} IN (${select})`,
  skipLocked: '',
  forUpdate: '',
  forReference: '',
  lockContent: () => '(SELECT 1) AS locked',
  lockFree: (select) => select,
  isLocked: isInJson,
  // Triggers record the largest revision.
  nextRevision: "(SELECT number + 1 FROM numbers WHERE name = 'revisions')",
  // Used only in a takedown, because it doubles the bytes that a deletion writes.
  overwriting: { on: { text: 'PRAGMA secure_delete = ON' }, off: { text: 'PRAGMA secure_delete = OFF' } }
}

/** Creates the dialect of PostgreSQL. */
export function createPostgresContents(tables: TablePrefix): ContentDialect {
  const prefix = `${tables}_`
  const isIn = (column: string, array: string): string =>
    `${column} = ANY(ARRAY(SELECT pg_catalog.jsonb_array_elements_text(CAST(${array} AS jsonb))))`
  return {
    ...postgresDialect,
    prefix,
    hasOneWriter: false,
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
      pg_catalog.jsonb_agg(cid) FROM (${select} FOR UPDATE OF c SKIP LOCKED) free) AS text), '[]'), true)`,
    isLocked: (column) => isIn(column, "pg_catalog.current_setting('did_auth.locked')"),
    nextRevision: `pg_catalog.nextval('${prefix}revisions')`,
    overwriting: undefined
  }
}

/** A statement with the text of SQLite, which can be translated to another dialect. */
interface ContentStatement extends SqlStatement {
  readonly translate: (dialect: ContentDialect) => SqlStatement
}

/** Creates the named statements of a group. In their texts, `~` stands for the prefix of table names. */
export function createStatements<K extends string>(
  group: string,
  createTexts: (dialect: ContentDialect) => Readonly<Record<K, string>>
): Readonly<Record<K, ContentStatement>> {
  const sqliteTexts = createTexts(sqliteContents)
  const create = (key: K): ContentStatement => {
    const translate = (dialect: ContentDialect, texts = createTexts(dialect)): SqlStatement => ({
      name: `${dialect.prefix}${group}_${key}`,
      text: texts[key].replaceAll('~', dialect.prefix).replaceAll(/\s+/g, ' ')
    })
    return { ...translate(sqliteContents, sqliteTexts), translate }
  }
  // The result has the keys of the texts.
  const keys = Object.keys(sqliteTexts) as K[]
  return Object.fromEntries(keys.map((key) => [key, create(key)])) as Record<K, ContentStatement>
}

/** Creates a function that translates statements to a dialect, each of them once. Plain text stays as it is. */
export function createTranslator(dialect: ContentDialect): (statement: SqlStatement) => SqlStatement {
  const translations = new Map<SqlStatement, SqlStatement>()
  return (statement) => {
    if (!('translate' in statement)) return statement
    const translation = translations.get(statement) ?? (statement as ContentStatement).translate(dialect)
    translations.set(statement, translation)
    return translation
  }
}
