import { describe, expect, it } from '@jest/globals'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { verifyDump } from '../../../servers/tools/postgres-dump.js'
import { readPages, readRows, writeLines } from '../../../servers/tools/row-files.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'

const folder = folderOfEachTest()
const fileOf = (table: string): string => join(folder.path, `${table}.jsonl.gz`)

async function* toPages(...pages: string[][]): AsyncGenerator<string[]> {
  for (const page of pages) yield await Promise.resolve(page)
}

/** Writes the lines of a table. */
const write = (table: string, ...pages: string[][]): Promise<number> =>
  writeLines(toPages(...pages), createWriteStream(fileOf(table)))

describe('a file of rows', () => {
  it('keeps each line, also one with the line separators U+2028 and U+2029, and one larger than a chunk', async () => {
    const lines = ['{"key":"a\u2028b\u2029c\u0085d"}', `"${'é'.repeat(100_000)}"`, '"last"']
    expect(await write('lists', lines.slice(0, 2), lines.slice(2))).toBe(3)
    const pages: string[][] = []
    for await (const page of readPages(fileOf('lists'))) pages.push(page)
    expect(pages).toEqual([lines])
  })

  it('has no lines if the table has no rows', async () => {
    expect(await write('lists')).toBe(0)
    for await (const page of readPages(fileOf('lists'))) throw new Error(String(page))
  })

  it('refuses with the error of a full disk', async () => {
    const error = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    const full = new Writable({ write: (_chunk, _encoding, done) => done(error) })
    // The text exceeds what gzip holds back, so the error comes while rows are still read.
    const page = Array.from({ length: 64 }, (_, number) => `"${String(Math.sin(number)).repeat(500)}"`)
    await expect(writeLines(toPages(...Array.from({ length: 50 }, () => page)), full)).rejects.toBe(error)
  })

  it('refuses to be read if it does not exist', async () => {
    await expect(readPages(fileOf('none')).next()).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it('refuses a line that is no JSON, without its text', async () => {
    await write('lists', ['{"key":"secr'])
    await expect(readRows(fileOf('lists'), 'lists', 1).next()).rejects.toThrow(
      /^lists has a row in the backup that is no JSON$/
    )
  })
})

describe('the verification of a dump', () => {
  const counts = { vault_contents: { rows: 0 }, vault_entries: { rows: 2 }, vault_object_pieces: { rows: 0 } }

  it.each(Object.keys(counts))('refuses another number of rows in %s', async (changed) => {
    for (const [table, { rows }] of Object.entries(counts)) {
      const row = JSON.stringify({ object: 'none', bytes: String.raw`\x00` })
      await write(
        table,
        Array.from({ length: rows + Number(table === changed) }, () => row)
      )
    }
    const { rows } = counts[changed as keyof typeof counts]
    await expect(verifyDump(folder.path, counts)).rejects.toThrow(
      `${changed} has ${rows + 1} rows in the backup, not ${rows}`
    )
    await expect(verifyDump(folder.path, { ...counts, [changed]: { rows: rows + 1 } })).resolves.toHaveLength(
      changed === 'vault_contents' ? 1 : 0
    )
  })
})
