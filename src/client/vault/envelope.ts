import { KEY, NOT_ENCRYPTED } from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { crypt, decodeBase64url, encodeBase64url, IV_BYTES, joined, randomBytes, textOf, utf8Of } from '../seal.js'

const VERSION = 'eda1'

/** Where an entry is: what its ciphertext belongs to, so that it cannot be moved to another key or user. */
export interface EntryPlace {
  readonly did: string
  readonly key: string
}

/** @returns `eda1.<iv>.<ciphertext and tag>`, both in base64url */
export async function encryptEntry(content: string, place: EntryPlace, secret: Uint8Array): Promise<string> {
  const iv = randomBytes(IV_BYTES)
  const sealed = await crypt('encrypt', joined([secret]), iv, contextOf(place), utf8Of(content))
  return [VERSION, encodeBase64url(iv), encodeBase64url(sealed)].join('.')
}

/** @throws DidAuthClientError NOT_ENCRYPTED for another form; KEY where secret, place or a byte is another */
export async function decryptEntry(content: string, place: EntryPlace, secret: Uint8Array): Promise<string> {
  const [version, iv = '', sealed = '', ...rest] = content.split('.')
  if (version !== VERSION || rest.length > 0 || /[^\w-]/.test(iv + sealed)) {
    throw new DidAuthClientError(NOT_ENCRYPTED)
  }
  try {
    const [ivBytes, bytes] = [decodeBase64url(iv), decodeBase64url(sealed)]
    return textOf(await crypt('decrypt', joined([secret]), ivBytes, contextOf(place), bytes))
  } catch (cause) {
    throw new DidAuthClientError(KEY, { cause })
  }
}

function contextOf({ did, key }: EntryPlace): string {
  return [did.toLowerCase(), key, VERSION].join('\n')
}
