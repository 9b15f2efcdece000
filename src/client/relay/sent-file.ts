import { KEY } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { concatBytes, decodeUtf8, utf8, type Bytes } from '../wire/seal.js'

/** Maximum length of the header (name, type and line feed) before the bytes of a file. */
const MAX_HEADER_BYTES = 4_096
const MAX_NAME_LENGTH = 255
const LINE_FEED = 10
/** Path separators, and characters that make a name look different from the stored one. */
const HIDDEN = /[/\\\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

/** Encodes a file: `["name","type"]` as JSON, a line feed, the bytes. @throws TypeError for anything but a `File` */
export async function encodeFile(file: File): Promise<Bytes> {
  // An ArrayBuffer, a Blob or an array would be sent as empty or wrong content.
  if (!(file instanceof File)) throw new TypeError('content: expected a string, a Uint8Array or a File')
  const header = utf8(`${JSON.stringify([cleanName(file.name), file.type.slice(0, MAX_NAME_LENGTH)])}\n`)
  return concatBytes([header, new Uint8Array(await file.arrayBuffer())])
}

/** Decodes a file with its sender's name and type. @throws DidAuthClientError KEY for other bytes, or without `File` */
export function decodeFile(bytes: Bytes): File {
  try {
    const end = bytes.subarray(0, MAX_HEADER_BYTES).indexOf(LINE_FEED)
    // JSON.parse rejects the empty header that results without a line feed.
    const [name, type] = JSON.parse(decodeUtf8(bytes.subarray(0, Math.max(end, 0)))) as unknown[]
    if (typeof name !== 'string' || typeof type !== 'string') throw new TypeError('No name or type')
    return new File([bytes.subarray(end + 1)], cleanName(name), { type })
  } catch (cause) {
    throw new DidAuthClientError(KEY, { cause })
  }
}

/** Returns a safe file name: without path separators and hidden characters, and with at least one visible character. */
function cleanName(name: string): string {
  const shown = name.slice(0, MAX_NAME_LENGTH).replace(HIDDEN, '')
  return /[^.\p{Cf}\p{Zs}]/u.test(shown) ? shown : 'file'
}
