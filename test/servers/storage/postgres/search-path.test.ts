import { describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { cidOf, did, entryOf, fileOf, largeBytes, NOW } from '../../../support/content-stores.js'
import { usePostgresContents } from '../../../support/postgres-contents.js'
import { root } from '../../../support/packed-package.js'

const folder = join(root, 'servers/storage/postgres')
const make = usePostgresContents()

/** Forms of the grammar, which no schema has. */
const SYNTAX = new Set(['coalesce', 'extract', 'greatest', 'least', 'nullif'])

/** Functions as another role would make them: PostgreSQL prefers them to its own, because their arguments fit better. */
const HOSTILE = [
  ['hashtextextended(text, integer)', 'bigint', '0'],
  ['nextval(text)', 'bigint', '1'],
  ['setval(text, bigint)', 'bigint', '1'],
  ['unnest(text[])', 'SETOF text', "''"],
  ['unnest(bigint[])', 'SETOF bigint', '1']
] as const

describe('a database on which another role may make functions', () => {
  it.each(readdirSync(folder))('is asked with the schema of each function: %s', (name) => {
    const texts: string[] = []
    const visit = (node: ts.Node): void => {
      if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node))
        texts.push(node.text)
      ts.forEachChild(node, visit)
    }
    visit(ts.createSourceFile(name, readFileSync(join(folder, name), 'utf8'), ts.ScriptTarget.Latest))
    const calls = texts.flatMap((text) => [...text.matchAll(/(?<![.\w])([a-z_]+)\(/g)].map(([, called = '']) => called))
    expect(calls.filter((called) => !SYNTAX.has(called))).toEqual([])
  })

  it('runs none of them', async () => {
    const files = await make()
    await files.query('CREATE TABLE IF NOT EXISTS called (name text)')
    for (const [signature, result, value] of HOSTILE)
      await files.query(`CREATE FUNCTION public.${signature} RETURNS ${result} LANGUAGE sql
        AS $$ INSERT INTO called VALUES ('${signature}'); SELECT ${value}::${result.replace('SETOF ', '')} $$`)
    try {
      const { store, inspection, imports } = files.openAll({ tracksPins: true })
      const large = largeBytes('x')
      for (const content of ['a', 'b', large]) await store.writeEntry(entryOf('k', content, { replaces: 'all' }))
      await store.writeFile(fileOf('file'))
      await store.removeEntries({ did, key: 'k' })
      await store.takeDown(cidOf('file'), 'order', NOW)
      await imports.reserveNumbers(100)
      await imports.importPins([{ cid: cidOf('c'), state: 'unpin', isInDoubt: false }])
      await store.claim({ limit: 10, nowSeconds: NOW, leaseSeconds: 30 })
      await inspection.checkDatabase({ isDryRun: true })
      await inspection.recount({ isDryRun: false })
      await inspection.checkObjects({ isDryRun: false })
      await inspection.trackPins({ isDryRun: false })
      await store.collectGarbage(NOW, { isFull: true })
      expect(await files.query('SELECT DISTINCT name FROM called')).toEqual([])
    } finally {
      for (const [signature] of HOSTILE) await files.query(`DROP FUNCTION public.${signature}`)
      await files.remove()
    }
  })
})
