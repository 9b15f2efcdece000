import { S3Error } from './s3-error.js'

/** One page of the keys of a bucket. */
export interface ObjectList {
  readonly keys: readonly string[]
  /** Where the next page begins; absent on the last one. */
  readonly continuationToken?: string
}

const DOCUMENT = /^\uFEFF?\s*(?:<\?xml[^<>]*\?>\s*)?<ListBucketResult(?:\s[^<>]*)?>(.*)<\/ListBucketResult>\s*$/s
const END = '</Contents>'
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

/**
 * Reads the three fields of a ListObjectsV2 answer that we need: `Contents/Key`, `IsTruncated`, `NextContinuationToken`.
 *
 * Whatever is not exactly that is an error, so that an answer that was cut never passes for a short list.
 *
 * @throws S3Error
 */
export function parseObjectList(text: string): ObjectList {
  const [, content] = DOCUMENT.exec(text) ?? []
  // No comment, CDATA or document type, in which these fields would mean something else.
  if (content === undefined || content.includes('<!')) throw unreadable()
  const [head = '', ...parts] = content.split('<Contents>')
  let rest = head
  const keys = parts.map((part) => {
    const end = part.indexOf(END)
    if (end === -1) throw unreadable()
    rest += part.slice(end + END.length)
    return fieldOf(part.slice(0, end), 'Key')
  })
  const isTruncated = fieldOf(rest, 'IsTruncated')
  if (isTruncated !== 'true' && isTruncated !== 'false') throw unreadable()
  return { keys, ...(isTruncated === 'true' && { continuationToken: fieldOf(rest, 'NextContinuationToken') }) }
}

/** The text of an element that is there once, and is not empty. */
function fieldOf(content: string, name: string): string {
  const [, text = '', ...others] = content.split(`<${name}>`)
  const end = text.indexOf(`</${name}>`)
  const raw = text.slice(0, end)
  if (end < 1 || others.length > 0 || raw.includes('<')) throw unreadable()
  return raw.replace(/&([^&;]*);?/g, (entity, name: string) => {
    const [, isHex, digits] = /^#(x?)([0-9a-f]{1,6})$/i.exec(name) ?? []
    const point = digits === undefined ? NaN : parseInt(digits, isHex === '' ? 10 : 16)
    const character = point <= 0x10_ff_ff ? String.fromCodePoint(point) : ENTITIES[name]
    if (character === undefined || !entity.endsWith(';')) throw unreadable()
    return character
  })
}

function unreadable(): S3Error {
  return new S3Error('Object storage answered no list of objects')
}
