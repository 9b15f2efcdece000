import { readFileSync } from 'node:fs'
import ts from 'typescript'

/** What stands before parentheses in SQL and is no function that a schema could have. */
const FORMS =
  'all and any array as by case coalesce conflict distinct exists extract from greatest in index into key least new not ' +
  'nullif on or order overlay over position primary references returning row select set substring table trim unique using ' +
  'values when where with'
const forms = new Set(FORMS.split(' '))

/** Names that columns follow in parentheses: `INSERT INTO t AS known (…)`, `CREATE TABLE t (…)`, `ON t (…)`. */
const WITH_COLUMNS = /\b(?:AS|INTO|TABLE|EXISTS|ON|REFERENCES)\s+[\w~"]+\s*\(/g

/**
 * Functions in the statements of a file that are called without `pg_catalog.`: a role that may create functions in our schema
 * could put its own in their place, to be run as the owner. `unnest` of several arrays is a form of the grammar.
 */
export function unqualifiedFunctions(file: string): string[] {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest)
  const found: string[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node)) {
      const text = node.text.replaceAll(WITH_COLUMNS, '(')
      for (const [, name = ''] of text.matchAll(/(?<![\w.])([a-z_]\w*)\(/gi)) {
        if (!forms.has(name.toLowerCase())) found.push(name)
      }
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}
