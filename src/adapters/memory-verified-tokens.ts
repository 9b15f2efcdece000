import type { VerifiedTokens } from '../ports.js'
import type { AccessTokenClaims } from '../protocol/access-token.js'

/** Tokens that one of the two generations holds; a token takes about 1 KB. */
const GENERATION_SIZE = 5_000

/**
 * Remembers verified tokens in two generations: when the younger is full, the elder is forgotten. Only tokens of the
 * service's own key come in, so that a stranger cannot make it grow.
 */
export class MemoryVerifiedTokens implements VerifiedTokens {
  #younger = new Map<string, AccessTokenClaims>()
  #elder = new Map<string, AccessTokenClaims>()

  get(token: string): AccessTokenClaims | undefined {
    const claims = this.#younger.get(token)
    if (claims !== undefined) return claims
    const older = this.#elder.get(token)
    if (older !== undefined) this.add(token, older)
    return older
  }

  add(token: string, claims: AccessTokenClaims): void {
    if (this.#younger.size >= GENERATION_SIZE) {
      this.#elder = this.#younger
      this.#younger = new Map()
    }
    this.#younger.set(token, claims)
  }
}
