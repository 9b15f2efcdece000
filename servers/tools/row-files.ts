import { createReadStream } from 'node:fs'
import { pipeline, type Writable } from 'node:stream'
import { pipeline as write } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { StartError } from '../config/startup-error.js'

/** Rows in a page. A row has up to 512 KiB of text. */
export const PAGE_ROWS = 64

const LINE_FEED = 10

/** Writes pages of lines, compressed. @returns the number of lines, @throws Error of the target, such as a full disk */
export async function writeLines(pages: AsyncIterable<readonly string[]>, target: Writable): Promise<number> {
  let count = 0
  async function* toText(): AsyncGenerator<string> {
    for await (const lines of pages) {
      count += lines.length
      yield lines.map((line) => `${line}\n`).join('')
    }
  }
  await write(toText, createGzip({ level: 1 }), target)
  return count
}

/** Reads the lines of a compressed file in pages. */
export async function* readPages(path: string): AsyncGenerator<string[]> {
  const input = pipeline(createReadStream(path), createGunzip({ chunkSize: 65_536 }), () => undefined)
  let page: string[] = []
  for await (const line of splitLines(input)) {
    page.push(line)
    if (page.length < PAGE_ROWS) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}

/** Splits text at line feeds only. JSON may contain U+2028 and U+2029, at which `node:readline` splits as well. */
async function* splitLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let parts: Buffer[] = []
  for await (const chunk of chunks) {
    let start = 0
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      yield Buffer.concat([...parts, chunk.subarray(start, end)]).toString()
      parts = []
      start = end + 1
    }
    if (start < chunk.length) parts.push(chunk.subarray(start))
  }
  if (parts.length > 0) yield Buffer.concat(parts).toString()
}

/** Reads the rows of a compressed file. @throws StartError if a line is no JSON, or the number of rows is wrong */
export async function* readRows(
  path: string,
  table: string,
  expected: number
): AsyncGenerator<Record<string, unknown>> {
  let count = 0
  for await (const lines of readPages(path)) {
    count += lines.length
    for (const line of lines) yield parseRow(line, table)
  }
  if (count !== expected) throw new StartError(`${table} has ${count} rows in the backup, not ${expected}`)
}

function parseRow(line: string, table: string): Record<string, unknown> {
  try {
    return JSON.parse(line) as Record<string, unknown>
  } catch {
    // The cause is not reported, because it quotes the row.
    throw new StartError(`${table} has a row in the backup that is no JSON`)
  }
}
