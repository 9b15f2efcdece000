import type { Entry } from '../list-state.js'
import type { Row } from './content-database.js'

/** A number of a row: `bigint` arrives as text. */
export function numberOf(value: unknown): number {
  return Number(value)
}

/** An entry of a row. */
export function entryOf({ number, cid, byte_count, json_byte_count }: Row): Entry {
  return {
    number: numberOf(number),
    cid: String(cid),
    byteCount: numberOf(byte_count),
    jsonByteCount: numberOf(json_byte_count)
  }
}
