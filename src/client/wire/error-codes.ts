/**
 * All errors of the clients: the code, the text for users (what happened, then what to do), and `true` if the same call
 * can succeed later. Separate constants let a bundler drop the errors that an entry never throws.
 */

/** The user declined in the wallet (EIP-1193, code 4001). */
export const USER_REJECTED = ['USER_REJECTED', 'You declined in your wallet. Try again and approve it.'] as const
/** The wallet still has an earlier request open (code -32002). */
export const WALLET_BUSY = ['WALLET_BUSY', 'Your wallet has an open request. Open it, and try again.'] as const
/** No wallet was found, or it has no account. */
export const NO_WALLET = ['NO_WALLET', 'No wallet found. Install or unlock one.'] as const
/** The wallet failed, or returned something other than an address, chain id or signature. */
export const WALLET = ['WALLET', 'Your wallet failed. Open it, and try again.'] as const
/** The call needs a session, and the client has none. */
export const NOT_SIGNED_IN = ['NOT_SIGNED_IN', 'You are not logged in. Log in again.'] as const
/** The session has ended, and its tokens are deleted. `reason` has the cause. */
export const SESSION_ENDED = ['SESSION_ENDED', 'Your session has ended. Log in again.'] as const
/** The service rejected the signature: another account or domain, or a challenge that has expired or was used. */
export const CHALLENGE = ['CHALLENGE', 'Your signature was refused. Check your wallet, and try again.'] as const
/** Business logic or credential rules of the service refused the request. `userMessage` is the service's text. */
export const REFUSED = ['REFUSED', 'The service refused. Check your data, and try again.'] as const
/** Status 429. */
export const RATE_LIMITED = ['RATE_LIMITED', 'Too many requests. Wait, and try again.', true] as const
/** The service is unreachable, timed out, or returned 5xx. On a page, missing CORS headers look the same. */
export const UNAVAILABLE = [
  'UNAVAILABLE',
  'The service cannot be reached. Check your network, and try again.',
  true
] as const
/** The service rejects the origin of this page, or of the URL in a device proof: its `trustedOrigins` must list it. */
export const CROSS_ORIGIN = ['CROSS_ORIGIN', 'The service refused this client. Contact its operator.'] as const
/** The browser sends two cookies of one name: an old one at another path hides that of the login. */
export const DUPLICATE_COOKIE = [
  'DUPLICATE_COOKIE',
  "Your browser has an old cookie. Delete this site's cookies, and log in again."
] as const
/** The response is not of this protocol: HTML, other JSON, a redirect, 404. */
export const PROTOCOL = ['PROTOCOL', 'The service failed. Contact its operator.'] as const
/** Status 412 of the vault: the list has another ETag than `ifMatch`, or exists despite `ifNoneMatch`. */
export const CONFLICT = [
  'CONFLICT',
  'The content was changed elsewhere. Load it again, and repeat your change.'
] as const
/** The text is not a relay URI. */
export const LINK = ['LINK', 'The link is incomplete. Copy it again.'] as const
/** This key does not decrypt the content, or the content was moved to another place. */
export const KEY = ['KEY', 'The content cannot be decrypted. Check the link or key.'] as const
/** The content does not match its CID. */
export const MISMATCH = ['MISMATCH', 'The content was altered. Contact the operator of the service.'] as const
/** The content has expired, or never existed. */
export const NOT_FOUND = [
  'NOT_FOUND',
  'The content has expired or never existed. Ask the sender for a new link.'
] as const
/** Status 451. */
export const TAKEN_DOWN = ['TAKEN_DOWN', 'The operator removed this file.'] as const
/** Neither the service nor its IPFS node has the content that it lists. */
export const MISSING = ['MISSING', 'The service lost this content. Contact its operator.'] as const
/** Status 413. */
export const TOO_LARGE = ['TOO_LARGE', 'The content is too large. Send less.'] as const
/** The quota of the user, or the disk of the service, is used up. */
export const FULL = ['FULL', 'No storage is left. Delete content, and try again.'] as const
/** The vault accepts no key of this name. */
export const NAME = [
  'NAME',
  'This name cannot be used for a key. Choose one of 1 to 512 bytes without control characters.'
] as const
/** The client encrypts, and the vault has an unencrypted entry. */
export const NOT_ENCRYPTED = [
  'NOT_ENCRYPTED',
  'An entry is not encrypted. Read it without an encryption key, then store it again.'
] as const
/** WebCrypto is missing, because the page has neither https nor localhost. */
export const INSECURE = ['INSECURE', 'This page is not secure. Use its https address.'] as const
/** The browser has no WebAuthn, or the passkey lacks the PRF extension. */
export const NO_PASSKEY = ['NO_PASSKEY', 'Your passkey does not work here. Choose another way.'] as const
/** The secret opens no slot of the keyring, or a recovery code is mistyped. */
export const LOCKED = ['LOCKED', 'Wrong recovery code, passkey or wallet. Check it, and try again.'] as const
/** The vault has no keyring of the user. */
export const KEYRING_MISSING = [
  'KEYRING_MISSING',
  'Your vault has no encryption key. Check that it is the right vault.'
] as const
/** The vault already has a keyring of the user. */
export const KEYRING_EXISTS = ['KEYRING_EXISTS', 'Your vault already has an encryption key. Use that one.'] as const
/** The keyring was changed by something other than a client. */
export const KEYRING_TAMPERED = [
  'KEYRING_TAMPERED',
  'The encryption key of your vault was altered. Contact its operator.'
] as const
/** Two signatures of one text differ, so this wallet could never open its slot again. */
export const WALLET_NOT_DETERMINISTIC = [
  'WALLET_NOT_DETERMINISTIC',
  'Your wallet signs differently each time. Choose another way.'
] as const
