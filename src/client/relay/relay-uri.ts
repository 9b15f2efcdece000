import { LINK } from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { decodeBase64url, type Bytes } from '../seal.js'

/** What a relay URI names: the file, and the key that the relay never sees. */
export interface RelayUri {
  readonly cid: string
  /** 32 bytes in base64url. */
  readonly key: string
  readonly keyBytes: Bytes
}

const URI = /^(?:relay:\/\/|https?:[^#]*#r=)(baf(?:krei|ybei)[a-z2-7]{52})[#.]([\w-]{43})$/

/**
 * Parses `relay://<cid>#<key>`, or a link to a page that ends in `#r=<cid>.<key>`.
 *
 * @throws DidAuthClientError LINK; its message does not have the text, which may hold a key
 */
export function parseRelayUri(text: unknown): RelayUri {
  const [, cid, key] = URI.exec(String(text).trim()) ?? []
  if (!cid || !key) throw new DidAuthClientError(LINK)
  return { cid, key, keyBytes: decodeBase64url(key) }
}
