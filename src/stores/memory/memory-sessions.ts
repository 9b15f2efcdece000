import type { NewSession, Rotation } from '../../ports.js'
import type { RefreshVerdict, Session, StoredSession } from '../../protocol/session.js'
import type { SweepClock } from '../sweep-clock.js'
import { ServiceSessions } from './memory-service-sessions.js'

/** Sessions of all services, each service's apart. */
export class MemorySessions {
  readonly #maxSessions: number
  readonly #clock: SweepClock
  readonly #services = new Map<string, ServiceSessions>()

  constructor(maxSessions: number, clock: SweepClock) {
    this.#maxSessions = maxSessions
    this.#clock = clock
  }

  create(session: NewSession): number {
    let sessions = this.#services.get(session.service)
    if (sessions === undefined) {
      sessions = new ServiceSessions(this.#maxSessions, this.#clock)
      this.#services.set(session.service, sessions)
    }
    return sessions.create(session)
  }

  find(service: string, sessionId: string): StoredSession | undefined {
    return this.#services.get(service)?.find(sessionId)
  }

  rotate(rotation: Rotation): RefreshVerdict {
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
