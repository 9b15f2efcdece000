/** Encryption in the client, before it sends content: AES-256-GCM by WebCrypto, which browsers have as well. */
const AES = 'AES-GCM'
const IV_BYTES = 12

/** Encrypts a text with a new key. Both results are base64url. */
export async function seal(text: string): Promise<{ sealed: string; key: string }> {
  const key = await crypto.subtle.generateKey({ name: AES, length: 256 }, true, ['encrypt'])
  const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
  const cipher = await crypto.subtle.encrypt({ name: AES, iv }, key, new TextEncoder().encode(text))
  const rawKey = await crypto.subtle.exportKey('raw', key)
  return {
    sealed: Buffer.concat([iv, new Uint8Array(cipher)]).toString('base64url'),
    key: Buffer.from(rawKey).toString('base64url')
  }
}

/** Decrypts a text. @throws if the key is wrong, or the ciphertext has changed */
export async function unseal(sealed: string, key: string): Promise<string> {
  const bytes = Buffer.from(sealed, 'base64url')
  const rawKey = Buffer.from(key, 'base64url')
  const cryptoKey = await crypto.subtle.importKey('raw', rawKey, AES, false, ['decrypt'])
  const iv = bytes.subarray(0, IV_BYTES)
  const plain = await crypto.subtle.decrypt({ name: AES, iv }, cryptoKey, bytes.subarray(IV_BYTES))
  return new TextDecoder().decode(plain)
}
