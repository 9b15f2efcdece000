import { pureCurve } from '../adapters/curve-pure.js'
import { EndedSessionReader, type EndedSessionsOptions } from '../adapters/ended-session-reader.js'
import { fetchBounded } from '../adapters/fetch-bounded.js'
import type { IsSigned } from '../adapters/named-keys.js'
import { createLazy } from '../lazy.js'
import type { Clock } from '../ports.js'
import { isObject, readField } from '../protocol/json.js'
import { isSecureUrl, parseHttpUrl } from '../protocol/parse-url.js'
import { createConfigError } from './issuer-keys.js'

const DISCOVERY_LIMITS = { milliseconds: 3_000, maxBytes: 64 * 1024 }

/** Service that publishes the list, and the check of its signatures. */
interface Publisher {
  issuers: readonly string[]
  audience: string
  clock: Clock
  findKeys: () => Promise<IsSigned>
}

/**
 * Creates the reader for the option `endedSessions`; undefined if the option is absent or false.
 * @throws DidAuthError ERR_CONFIG
 */
export function createEndedSessionReader(
  option: unknown,
  { issuers, audience, clock, findKeys }: Publisher
): EndedSessionReader | undefined {
  if (option === undefined || option === false) return undefined
  const options = parseOptions(option === true ? {} : option)
  if (options.url === undefined && parseHttpUrl(audience) === undefined)
    throw createConfigError('endedSessions: give the url of the list, since audience is no http(s) URL')
  const findUrl = createLazy(async () => options.url ?? (await discoverUrl(audience)))
  const logger = {
    warn: (fields: object, message: string) => console.warn(`express-did-auth/verify: ${message}`, fields)
  }
  const findSource = async () => {
    const url = await findUrl()
    return { url, issuers, audience, curve: { sha256: pureCurve.sha256, verify: await findKeys() } }
  }
  return new EndedSessionReader({ clock, logger, curve: pureCurve, findSource }, options)
}

/** Reads the URL of the list from the discovery document of a service. */
async function discoverUrl(serviceUrl: string): Promise<string> {
  const discoveryUrl = `${serviceUrl.replace(/\/$/, '')}/.well-known/did-auth.json`
  const { status, text } = await fetchBounded(discoveryUrl, {}, DISCOVERY_LIMITS)
  const url: unknown = status === 200 ? readField(JSON.parse(text), 'ended_sessions_uri') : undefined
  if (isSecureUrl(url)) return url
  throw new Error(`${discoveryUrl} (${String(status)}) names no ended_sessions_uri`)
}

function parseOptions(options: unknown): EndedSessionsOptions {
  if (!isObject(options)) throw createConfigError('endedSessions: give true or an object')
  const { url, pollSeconds, maxStaleSeconds, whenStale, waitUntil } = options
  if (url !== undefined && !isSecureUrl(url))
    throw createConfigError('endedSessions.url: give a URL, https or on this machine')
  for (const [name, seconds] of Object.entries({ pollSeconds, maxStaleSeconds })) {
    if (seconds !== undefined && !(Number.isInteger(seconds) && Number(seconds) >= 1))
      throw createConfigError(`endedSessions.${name}: give whole seconds, at least 1`)
  }
  if (whenStale !== undefined && whenStale !== 'accept' && whenStale !== 'refuse')
    throw createConfigError("endedSessions.whenStale: give 'accept' or 'refuse'")
  if (waitUntil !== undefined && typeof waitUntil !== 'function')
    throw createConfigError('endedSessions.waitUntil: give a function')
  return options
}
