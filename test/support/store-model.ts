import type { ChallengeFlow, ChallengeUse, NewSession, QuotaCharge, QuotaState, Rotation } from '../../src/ports.js'

interface ModelSession extends NewSession {
  state: 'active' | 'loggedOut' | 'revoked'
  rotatedAt: number
  /** The tokens that it remembers, the current one last, each with the time of its replacement. */
  tokens: { hash: string; replacedAt: number }[]
}

/**
 * What a store has to do, in the shortest words, for comparison: lists that are searched from end to end, nothing ever
 * tidied up. It holds the numbers 50 and 16 of the specification by itself, and judges refresh tokens by itself.
 */
export class StoreModel {
  sessions: ModelSession[] = []
  readonly uses = new Map<string, Record<ChallengeFlow, number>>()
  readonly quotas = new Map<string, { count: number; resetsAtSeconds: number }>()

  createSession(session: NewSession): number {
    const { refreshTokenHash: hash, nowSeconds } = session
    const rank = (one: ModelSession): number =>
      one.expiresAtSeconds <= nowSeconds ? 0 : one.state === 'active' ? 2 : 1
    const own = this.sessions.filter((one) => one.service === session.service && sameUser(one.did, session.did))
    if (own.length >= 50) {
      const least = Math.min(...own.map(rank))
      const victim = own.find((one) => rank(one) === least)
      this.sessions = this.sessions.filter((one) => one !== victim)
    }
    this.sessions.push({ ...session, state: 'active', rotatedAt: nowSeconds, tokens: [{ hash, replacedAt: 0 }] })
    return 0
  }

  find(service: string, sessionId: string): ModelSession | undefined {
    return this.sessions.find((one) => one.service === service && one.sessionId === sessionId)
  }

  rotate(rotation: Rotation): string {
    const { presentedHash, nextHash, nowSeconds, graceSeconds } = rotation
    const session = this.find(rotation.service, rotation.sessionId)
    const token = session?.tokens.find(({ hash }) => hash === presentedHash)
    if (session === undefined || token === undefined) return 'unknown'
    if (session.state !== 'active' || session.expiresAtSeconds <= nowSeconds) return 'ended'
    const current = session.tokens.at(-1)
    if (token !== current) {
      if (current?.hash === nextHash) return 'repeated'
      if (session.tokens.some(({ hash }) => hash === nextHash)) return 'replaced'
      if (nowSeconds <= token.replacedAt + graceSeconds) return 'replaced'
      session.state = 'revoked'
      return 'reused'
    }
    token.replacedAt = nowSeconds
    session.tokens = [...session.tokens.slice(-16), { hash: nextHash, replacedAt: 0 }]
    session.tokenClaims = rotation.tokenClaims
    session.rotatedAt = nowSeconds
    session.expiresAtSeconds = rotation.nextExpiresAtSeconds
    return 'rotate'
  }

  endSession(service: string, sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): boolean {
    const session = this.find(service, sessionId)
    if (session?.state !== 'active' || session.expiresAtSeconds <= nowSeconds) return false
    session.state = state
    return true
  }

  active(service: string, did: string, nowSeconds: number): ModelSession[] {
    return this.sessions
      .filter((one) => one.service === service && sameUser(one.did, did))
      .filter((one) => one.state === 'active' && one.expiresAtSeconds > nowSeconds)
      .reverse()
  }

  consumeChallenge(use: ChallengeUse): 'consumed' | 'taken' {
    const key = [use.service, use.did, use.window].join()
    const counts = this.uses.get(key) ?? { logIn: 0, signUp: 0 }
    if (use.expiresAtSeconds <= use.nowSeconds || counts[use.flow] !== use.useCount) return 'taken'
    const raised = (flow: ChallengeFlow): number =>
      flow === use.flow || use.consumesBoth ? Math.max(counts[flow], use.useCount + 1) : counts[flow]
    this.uses.set(key, { logIn: raised('logIn'), signUp: raised('signUp') })
    return 'consumed'
  }

  chargeQuota({ service, kind, key, cost, limit, nowSeconds, timeSlotSeconds }: QuotaCharge): QuotaState {
    const id = [service, kind, key].join()
    const known = this.quotas.get(id)
    const isCurrent = known !== undefined && nowSeconds < known.resetsAtSeconds
    const quota = isCurrent ? known : { count: 0, resetsAtSeconds: nowSeconds + timeSlotSeconds }
    if (limit !== undefined && quota.count + cost > limit) return { isCharged: false, ...quota }
    const charged = { ...quota, count: quota.count + cost }
    this.quotas.set(id, charged)
    return { isCharged: true, ...charged }
  }
}

function sameUser(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase()
}
