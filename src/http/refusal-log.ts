import { errorTexts, type DidAuthError } from '../errors.js'
import { describeCause } from '../flows/describe-cause.js'
import type { Logger } from '../ports.js'

/**
 * Makes the function that logs refused requests: each at debug, with its code and the check that refused it. The first of
 * each code (of 429: of each budget) is a warning that names the check, or the option that decides.
 *
 * The texts are fixed: an error's own message may be the application's.
 */
export function refusalLog(logger: Logger): (error: DidAuthError) => void {
  const warned = new Set<string>()
  return ({ code, reason, cause }) => {
    const fields = { event: 'request-refused', code, ...(reason !== undefined && { reason }) }
    const why = reason === undefined && cause !== undefined ? { cause: describeCause(cause) } : {}
    const decides = reason?.option === undefined ? '' : `: the option ${String(reason.option)} decides`
    logger.debug?.({ ...fields, ...why }, errorTexts[code] + decides)
    const kind = `${code} ${String(reason?.budget ?? '')}`
    if (warned.has(kind)) return
    warned.add(kind)
    // What a signature recovers to is for those who ask for it, at debug.
    const shown = decides === '' ? reason && { check: reason.check } : reason
    const subject = reason?.budget === undefined ? 'of this code' : `by the budget of ${String(reason.budget)}`
    const more =
      decides === '' ? ': pass a logger with debug for the reason' : `${decides}; later ones are logged at debug`
    logger.warn({ event: 'first-refusal', code, ...(shown && { reason: shown }) }, `first refusal ${subject}${more}`)
  }
}
