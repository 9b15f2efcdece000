/** Additions of proxies that compress an answer to its entity tag: `W/` before it, or a suffix within its quotes. */
const COMPRESSION_MARKS = /^W\/|-(?:gzip|br|zstd|deflate)(?="$)/g

/**
 * Removes from an entity tag what a proxy adds when it compresses an answer. Tags of lists name the state of a
 * list, not bytes, so a compressed list has the same tag. They end in 43 digits of base64url, of which the last one
 * encodes 4 bits: it is none of the letters in which a suffix ends.
 * @see RFC 9110, section 8.8.3.3
 */
export function normalizeEntityTag(tag: string): string {
  return tag.trim().replace(COMPRESSION_MARKS, '')
}

/**
 * Whether `If-None-Match` lists an entity tag of this package, also as a weak one or as that of a compressed answer.
 * @see RFC 9110, sections 8.8.3.2 and 13.1.2
 */
export function listsEntityTag(header: unknown, etag: string): boolean {
  const listed = typeof header === 'string' ? header.split(',').map(normalizeEntityTag) : []
  return listed.includes(etag) || listed.includes('*')
}
