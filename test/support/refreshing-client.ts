import { randomBytes } from 'node:crypto'

/** What a refresh ended in: new tokens, the refusal that makes a client forget its own, or nothing that it heard of. */
export type RefreshOutcome = 'refreshed' | 'logged out' | 'unavailable'

/**
 * A client that refreshes as the documentation says: it keeps refresh token and idempotency key until it has heard an
 * answer, and repeats the same request where it heard none.
 */
export class RefreshingClient {
  readonly #url: string
  #key: string | undefined
  refreshToken: string

  constructor(port: number, refreshToken: string) {
    this.#url = `http://127.0.0.1:${String(port)}/refresh-token`
    this.refreshToken = refreshToken
  }

  /** The same client, with its token and its key, at another port. */
  at(port: number): RefreshingClient {
    const moved = new RefreshingClient(port, this.refreshToken)
    moved.#key = this.#key
    return moved
  }

  /** Tries once; what was `unavailable` goes on with the next call. */
  async refresh(): Promise<RefreshOutcome> {
    this.#key ??= randomBytes(16).toString('base64url')
    const answer = await this.#ask(this.#key)
    if (answer === undefined || answer.status >= 500) return 'unavailable'
    this.#key = undefined
    if (answer.status !== 200) return 'logged out'
    this.refreshToken = answer.refreshToken
    return 'refreshed'
  }

  async #ask(key: string): Promise<{ status: number; refreshToken: string } | undefined> {
    try {
      const response = await fetch(this.#url, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
        body: JSON.stringify({ refreshToken: this.refreshToken })
      })
      const body =
        response.status === 200 ? ((await response.json()) as { refreshToken: string }) : { refreshToken: '' }
      return { status: response.status, refreshToken: body.refreshToken }
    } catch {
      // The connection was cut.
      return undefined
    }
  }
}
