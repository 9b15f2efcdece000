/**
 * The table of all errors of the clients: each code with what users are told (what happened, and what to do) and, where
 * the same call can succeed later, `true`. Constants, so that each bundle has only those that it throws.
 */

/** The user declined in the wallet (EIP-1193, code 4001). */
export const USER_REJECTED = ['USER_REJECTED', 'You refused. Confirm, and try again.'] as const
/** The wallet has a request open already (code -32002). */
export const WALLET_BUSY = ['WALLET_BUSY', 'Your wallet is busy. Open it, and try again.'] as const
/** There is no wallet, or it has no account. */
export const NO_WALLET = ['NO_WALLET', 'You have no wallet. Get one, and try again.'] as const
/** The wallet failed, or its answer is not an address, chain id or signature. */
export const WALLET = ['WALLET', 'Your wallet failed. Open it, and try again.'] as const
/** The call needs a session, and there is none. */
export const NOT_SIGNED_IN = ['NOT_SIGNED_IN', 'You are not logged in. Log in again.'] as const
/** The session has ended, and its tokens are forgotten: see `reason`. */
export const SESSION_ENDED = ['SESSION_ENDED', 'Your session has ended. Log in again.'] as const
/** The service did not accept the signature: of another account, for another domain, too late, or used. */
export const CHALLENGE = ['CHALLENGE', 'Your signature was refused. Check your wallet, and try again.'] as const
/** The service's business logic, or its rules for credentials, refused. `userMessage` is the service's own text. */
export const REFUSED = ['REFUSED', 'The service refused. Check your data, and try again.'] as const
/** Status 429. */
export const RATE_LIMITED = ['RATE_LIMITED', 'Too many requests. Wait, and try again.', true] as const
/** The service cannot be reached (in a page also: CORS forbids to read it), took too long, or answered 5xx. */
export const UNAVAILABLE = [
  'UNAVAILABLE',
  'The service cannot be reached. Check your network, and try again.',
  true
] as const
/** The service refuses the origin of this page: `trustedOrigins` of the service has to name it. */
export const CROSS_ORIGIN = ['CROSS_ORIGIN', 'The service refused this page. Tell those who run it.'] as const
/** A route of the service gave an answer outside the protocol: HTML, other JSON, a redirect, 404. */
export const PROTOCOL = ['PROTOCOL', 'The service failed. Tell those who run it.'] as const
/** Status 412 of the vault: the list is not the one of `ifMatch`, or there is one in spite of `ifNoneMatch`. */
export const CONFLICT = ['CONFLICT', 'It was changed elsewhere. Load it again, and repeat your change.'] as const
/** The text is not a relay URI. */
export const LINK = ['LINK', 'The link is incomplete. Copy it again.'] as const
/** Content cannot be decrypted with this key, or was moved to another place. */
export const KEY = ['KEY', 'The content cannot be read. Ask for it again.'] as const
/** Content is not what its cid names. */
export const MISMATCH = ['MISMATCH', 'The content was changed. Ask for it again.'] as const
/** The content has expired, or was never there. */
export const NOT_FOUND = ['NOT_FOUND', 'The content has expired, or was never there. Ask for it again.'] as const
/** Status 451. */
export const TAKEN_DOWN = ['TAKEN_DOWN', 'The operator removed this file.'] as const
/** The vault lists the content, and neither it nor its IPFS node has it. */
export const MISSING = ['MISSING', 'The content was lost. Ask for it again.'] as const
/** Status 413. */
export const TOO_LARGE = ['TOO_LARGE', 'The content is too large. Send less.'] as const
/** The quota of the user, or the disk of the service. */
export const FULL = ['FULL', 'The service is full. Delete content.'] as const
/** The vault has no key of this name. */
export const NAME = [
  'NAME',
  'This name cannot be used for a key. Choose one of 1 to 512 bytes without control characters.'
] as const
/** An entry of the vault, where the client encrypts. */
export const NOT_ENCRYPTED = [
  'NOT_ENCRYPTED',
  'An entry is not encrypted. Read it without an encryption key. Then store it again.'
] as const
/** There are no passkeys here, or the user's has no extension PRF. */
export const NO_PASSKEY = ['NO_PASSKEY', 'Your passkey cannot sign here. Choose another way.'] as const
/** No slot of the keyring opens with what the user has, or a recovery code is mistyped. */
export const LOCKED = ['LOCKED', 'This does not open your vault. Check it, and try again.'] as const
/** The vault has no keyring of the user. */
export const KEYRING_MISSING = ['KEYRING_MISSING', 'Your vault has no keys. Check that it is the right one.'] as const
/** The vault has a keyring of the user already. */
export const KEYRING_EXISTS = ['KEYRING_EXISTS', 'Your vault has keys already. Open them, and try again.'] as const
/** The keyring is not as a client wrote it. */
export const KEYRING_TAMPERED = [
  'KEYRING_TAMPERED',
  'The keys of your vault were changed by others. Tell those who run it.'
] as const
/** Two signatures of one text differ, so the wallet could not open a slot that it made. */
export const WALLET_NOT_DETERMINISTIC = [
  'WALLET_NOT_DETERMINISTIC',
  'Your wallet signs differently each time. Choose another way.'
] as const
