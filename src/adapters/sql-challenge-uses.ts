import type { ChallengeFlow, ChallengeUse, ChallengeUseKey } from '../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../protocol/challenge.js'
import { sqlText } from './sql-text.js'
import type { SqlVerb } from './sql-verb.js'

/** How often challenges of a window were used up. */
export function* countChallengeUses(key: ChallengeUseKey, forUpdate = ''): SqlVerb<Record<ChallengeFlow, number>> {
  const [row] = yield [sqlText.challengeUses + forUpdate, key.did, key.window, key.service]
  return { logIn: Number(row?.log_in ?? 0), signUp: Number(row?.sign_up ?? 0) }
}

/** Uses up one challenge. */
export function* useChallenge(
  use: ChallengeUse,
  maxUses: number,
  forUpdate: string
): SqlVerb<'used' | 'taken' | 'full'> {
  const { did, window, service, flow, useCount, spendsBoth, nowSeconds, expiresAtSeconds } = use
  if (nowSeconds >= expiresAtSeconds) return 'taken'
  const counts = yield* countChallengeUses(use, forUpdate)
  if (counts[flow] !== useCount) return 'taken'
  const isFirst = counts.logIn === 0 && counts.signUp === 0
  const next = useCount + 1
  const other = flow === 'logIn' ? 'signUp' : 'logIn'
  counts[flow] = next
  if (spendsBoth) counts[other] = Math.max(counts[other], next)
  if (!isFirst) {
    yield [sqlText.updateChallengeUses, did, window, service, counts.logIn, counts.signUp]
    return 'used'
  }
  const ended = yield [sqlText.deleteEndedChallengeUses, nowSeconds - USES_OUTLIVE_WINDOW_SECONDS]
  const [total] = yield [sqlText.addRows, 1 - ended.length, 'challengeUses']
  if (Number(total?.number) > maxUses) {
    yield [sqlText.addRows, -1, 'challengeUses']
    return 'full'
  }
  const inserted = yield [
    sqlText.insertChallengeUses,
    did,
    window,
    service,
    counts.logIn,
    counts.signUp,
    expiresAtSeconds
  ]
  if (inserted.length > 0) return 'used'
  // Another instance inserted the row since it was looked for; SQLite's one writer at a time never gets here.
  yield [sqlText.addRows, -1, 'challengeUses']
  return 'taken'
}
