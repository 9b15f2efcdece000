import type { NewSession, Rotation } from '../ports.js'
import type { RefreshVerdict, Session } from '../protocol/session.js'
import { ServiceSessions } from './memory-service-sessions.js'

/** Sessions of all services, each service's apart. */
export class MemorySessions {
  readonly #maxSessions: number
  readonly #services = new Map<string, ServiceSessions>()

  constructor(maxSessions: number) {
    this.#maxSessions = maxSessions
  }

  create(session: NewSession): void {
    let sessions = this.#services.get(session.service)
    if (sessions === undefined) {
      sessions = new ServiceSessions(this.#maxSessions)
      this.#services.set(session.service, sessions)
    }
    sessions.create(session)
  }

  find(service: string, hash: string): Session | undefined {
    return this.#services.get(service)?.find(hash)
  }

  rotate(rotation: Rotation): RefreshVerdict | 'unknown' {
    return this.#services.get(rotation.service)?.rotate(rotation) ?? 'unknown'
  }

  end(service: string, sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): boolean {
    return this.#services.get(service)?.end(sessionId, state, nowSeconds) ?? false
  }

  revokeAll(service: string, user: string, nowSeconds: number): number {
    const active = this.list(service, user, nowSeconds)
    return active.filter(({ sessionId }) => this.end(service, sessionId, 'revoked', nowSeconds)).length
  }

  list(service: string, user: string, nowSeconds: number): Session[] {
    return this.#services.get(service)?.list(user, nowSeconds) ?? []
  }
}
