import { Buffer } from 'node:buffer'
import type { NewSession, Rotation } from '../../ports.js'
import type { JsonObject } from '../../protocol/json.js'
import type { ReplacedToken, Session, StoredSession } from '../../protocol/session.js'
import { packReplacedToken, parseReplacedTokens, REPLACED_BYTES } from '../replaced-tokens.js'

/** A session in memory: flat and small, because there may be a million. */
export class SessionRecord {
  readonly sessionId: string
  readonly did: string
  state: Session['state'] = 'active'
  /** JSON, which is small and cannot be changed from outside. */
  tokenClaims: string | undefined
  readonly createdAtSeconds: number
  rotatedAtSeconds: number
  expiresAtSeconds: number
  refreshTokenHash: string
  /** As `packReplacedToken` packs them, one character a byte: a Buffer would need more memory than its content. */
  replaced = ''
  /** The user's session before this one: each user's sessions are a chain, the newest first. */
  older: SessionRecord | undefined

  /** @param user - canonical DID */
  constructor(
    { sessionId, did, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds }: NewSession,
    user: string
  ) {
    // V8 keeps a concatenated id as a tree of its parts until it is copied, which needs more memory.
    this.sessionId = Buffer.from(sessionId).toString()
    // One string serves as key and as value where the spellings agree.
    this.did = did === user ? user : did
    this.tokenClaims = tokenClaims && JSON.stringify(tokenClaims)
    this.createdAtSeconds = nowSeconds
    this.rotatedAtSeconds = nowSeconds
    this.expiresAtSeconds = expiresAtSeconds
    this.refreshTokenHash = refreshTokenHash
    this.older = undefined
  }

  /** Read from `replaced` each time: a refresh with the current token, the usual case, does not need them. */
  get replacedTokens(): ReplacedToken[] {
    return parseReplaced(this.replaced)
  }

  isActive(nowSeconds: number): boolean {
    return this.state === 'active' && nowSeconds < this.expiresAtSeconds
  }

  rotate({ nextHash, tokenClaims, nowSeconds, nextExpiresAtSeconds }: Rotation): void {
    const record = packReplacedToken(this.refreshTokenHash, nowSeconds).toString('latin1')
    this.replaced = (record + this.replaced).slice(0, REPLACED_BYTES)
    this.refreshTokenHash = nextHash
    this.tokenClaims = tokenClaims && JSON.stringify(tokenClaims)
    this.rotatedAtSeconds = nowSeconds
    this.expiresAtSeconds = nextExpiresAtSeconds
  }

  /** A copy that a caller may keep. */
  toSession(): Session {
    return {
      sessionId: this.sessionId,
      did: this.did,
      state: this.state,
      tokenClaims: parseClaims(this.tokenClaims),
      createdAtSeconds: this.createdAtSeconds,
      rotatedAtSeconds: this.rotatedAtSeconds,
      expiresAtSeconds: this.expiresAtSeconds
    }
  }

  /** A copy that a caller may keep, with the hashes of its tokens. */
  toStoredSession(): StoredSession {
    const { replaced } = this
    return {
      sessionId: this.sessionId,
      did: this.did,
      state: this.state,
      tokenClaims: parseClaims(this.tokenClaims),
      createdAtSeconds: this.createdAtSeconds,
      rotatedAtSeconds: this.rotatedAtSeconds,
      expiresAtSeconds: this.expiresAtSeconds,
      refreshTokenHash: this.refreshTokenHash,
      // Few callers need them, and unpacking them costs more than all the rest.
      get replacedTokens() {
        return parseReplaced(replaced)
      }
    }
  }
}

function parseClaims(json: string | undefined): JsonObject | undefined {
  return json === undefined ? undefined : (JSON.parse(json) as JsonObject)
}

function parseReplaced(packed: string): ReplacedToken[] {
  return packed === '' ? [] : parseReplacedTokens(Buffer.from(packed, 'latin1'))
}
