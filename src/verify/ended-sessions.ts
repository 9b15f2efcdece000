import { pureCurve } from '../adapters/curve-pure.js'
import { EndedSessionReader, fetchDiscovery } from '../adapters/ended-session-reader.js'
import type { IsSigned } from '../adapters/named-keys.js'
import type { Clock, EndedSessionsOptions } from '../ports.js'
import { findEndedSessionsProblem } from '../protocol/ended-sessions.js'
import { readField } from '../protocol/json.js'
import { isSecureUrl, parseHttpUrl } from '../protocol/parse-url.js'
import { createConfigError, createWarningLogger } from './issuer-keys.js'

/** Service that publishes the list, and the check of its signatures. */
interface Publisher {
  issuers: readonly string[]
  audience: string
  clock: Clock
  findKeys: (issuer: string) => Promise<IsSigned>
}

/**
 * Creates the reader for the option `endedSessions`; undefined if the option is absent or false.
 * @throws DidAuthError ERR_CONFIG
 */
export function createEndedSessionReader(
  option: boolean | EndedSessionsOptions | undefined,
  { issuers, audience, clock, findKeys }: Publisher
): EndedSessionReader | undefined {
  const problem = findEndedSessionsProblem(option)
  if (problem !== undefined) throw createConfigError(`endedSessions: ${problem}`)
  if (option === undefined || option === false) return undefined
  const options = option === true ? {} : option
  if (options.url === undefined && parseHttpUrl(audience) === undefined)
    throw createConfigError('endedSessions: give the url of the list, since audience is no http(s) URL')
  let { url: listUrl } = options
  // The URL is cached and not its promise: in Workers, a fetch of a cancelled request never settles.
  const findUrl = async (): Promise<string> => {
    if (listUrl !== undefined) return listUrl
    const url = readField(await fetchDiscovery(audience), 'ended_sessions_uri')
    if (isSecureUrl(url)) return (listUrl = url)
    throw new Error(`the discovery document of ${audience} names no ended_sessions_uri`)
  }
  const findSource = async () => ({ url: await findUrl(), issuers, audience, findKeys })
  return new EndedSessionReader({ clock, logger: createWarningLogger(), curve: pureCurve, findSource }, options)
}
