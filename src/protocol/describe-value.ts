// Tokens, signatures, hashes and keys are long runs of these characters; words and paths contain others.
const SECRET = /[A-Za-z0-9_-]{32,}/g
/** User and password in a URL. */
const CREDENTIALS = /\/\/[^/?#]*@/g
const MAX_LENGTH = 200

/** Cuts every part of a text out that may be a token, signature, challenge or key. */
export function cutSecrets(text: string): string {
  return text.replace(SECRET, '[cut]')
}

/** Describes a received value for the log: text without what may be secret, at most 200 characters; else its type. */
export function describeValue(value: unknown): string {
  if (typeof value !== 'string') return Array.isArray(value) ? 'array' : typeof value
  return cutSecrets(value.replace(CREDENTIALS, '//')).slice(0, MAX_LENGTH)
}
