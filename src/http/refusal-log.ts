import { errorTexts, type DidAuthError, type RefusalReason } from '../errors.js'
import { describeCause } from '../flows/describe-cause.js'
import type { Logger } from '../ports.js'

/**
 * Makes the function that logs refused requests: each at debug, with its code and the check that refused it. The first of
 * each kind that an option decides (429 by budget, 403) is a warning that names the option.
 *
 * The texts are fixed: an error's own message may be the application's.
 */
export function refusalLog(logger: Logger): (error: DidAuthError) => void {
  const warned = new Set<string>()
  return ({ code, reason, cause }) => {
    const fields = { event: 'request-refused', code, ...(reason !== undefined && { reason }) }
    const why = reason === undefined && cause !== undefined ? { cause: describeCause(cause) } : {}
    logger.debug?.({ ...fields, ...why }, errorTexts[code])
    if (reason?.option === undefined) return
    const kind = `${code} ${String(reason.budget ?? '')}`
    if (warned.has(kind)) return
    warned.add(kind)
    logger.warn({ ...fields, event: 'first-refusal' }, adviceFor(reason))
  }
}

function adviceFor({ option, budget }: RefusalReason): string {
  const subject = budget === undefined ? 'of this code' : `by the budget of ${String(budget)}`
  return `first refusal ${subject}: the option ${String(option)} decides; later ones are logged at debug`
}
