import type { ChallengeUse, ChallengeUseKey, NewSession, Rotation } from '../../ports.js'
import type { SweepClock } from '../sweep-clock.js'
import { ChallengeUseTable } from './challenge-use-table.js'
import type { Verbs } from './group-commit.js'
import { SessionTable } from './session-table.js'
import type { SqlConnection, SqlStatement } from './sqlite-engine.js'

/** Bounds of a store. */
export interface StoreBounds {
  readonly maxSessions: number
  readonly maxChallengeUses: number
}

/** The verbs of sessions and uses of challenges, by name, with arguments parsed from JSON. */
export class SessionVerbs implements Verbs {
  readonly #sessions: SessionTable
  readonly #uses: ChallengeUseTable
  readonly #ping: SqlStatement

  constructor(connection: SqlConnection, bounds: StoreBounds, clock: SweepClock) {
    this.#sessions = new SessionTable(connection, bounds.maxSessions)
    this.#uses = new ChallengeUseTable(connection, bounds.maxChallengeUses, clock)
    this.#ping = connection.prepare("UPDATE did_auth_numbers SET number = number + 1 WHERE name = 'pings'")
  }

  begin(): void {
    // Cached counts may be slightly out of date: only bounds depend on them.
  }

  /** Runs a verb. Those that write expect the caller's transaction. */
  run(verb: string, args: readonly unknown[]): unknown {
    const [first, second, third, fourth] = args
    switch (verb) {
      case 'createSession':
        return this.#sessions.create(first as NewSession)
      case 'rotateRefreshToken':
        return this.#sessions.rotate(first as Rotation)
      case 'endSession':
        return this.#sessions.end(first as string, second as string, third as 'loggedOut' | 'revoked', fourth as number)
      case 'revokeSessions':
        return this.#sessions.revokeAll(first as string, second as string, third as number)
      case 'consumeChallenge':
        return this.#uses.consume(first as ChallengeUse)
      // A real write, so that a full disk or a read-only file fails.
      case 'ping':
        return this.#ping.run().changes
      case 'findSession':
        return this.#sessions.find(first as string, second as string)
      case 'listSessions':
        return this.#sessions.list(first as string, second as string, third as number)
      case 'countChallengeUses':
        return this.#uses.countUses(first as ChallengeUseKey)
      default:
        throw new Error(`express-did-auth: no such verb of a store: ${verb}`)
    }
  }

  finish(): void {
    // Each verb has written its rows already.
  }

  reset(): void {
    this.#sessions.reset()
    this.#uses.reset()
  }

  /** @param sweepSeconds - from a `SweepClock` */
  sweep(sweepSeconds: number): boolean {
    const mayBeMore = [this.#sessions.sweep(sweepSeconds), this.#uses.sweep(sweepSeconds)]
    return mayBeMore.includes(true)
  }
}
