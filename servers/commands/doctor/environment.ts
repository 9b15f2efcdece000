import { acceptedLoginDomains, MAX_LOGIN_DOMAINS } from 'express-did-auth/protocol'
import { isLoopbackHost, parseHttpUrl } from 'express-did-auth/server-kit'
import { findSettingWarnings } from '../../config/setting-warnings.js'
import type { ServerEnv } from '../../config/read-env.js'
import { ownCommand } from '../../config/startup-error.js'
import { change, note, type Finding, type Found } from './finding.js'

const LEAST_SECRET_BITS = 100
/** The beginnings of keys that are printed in the documents of development chains, and keys that repeat a byte. */
const KNOWN_KEY = /^(?:ac0974bec39a17e3|59c6995e998f97a5|5de4111afa1a4b94|0{32})|^(..)\1+$/

/** Address of a service, from its environment or its responses. */
type Address = { url: URL; usesCookies: boolean }

/** Returns the faults of a server that its environment shows without a request. */
export function checkEnv(env: ServerEnv): Found {
  const { address, name, CHALLENGE_SECRET: secret, SERVICE_URL: given, HOST: host, TRUST_PROXY: trusted } = env
  const variable = address.variable.replace('PORT', 'SERVICE_URL')
  const text = given ?? `http://localhost:${address.port}`
  const keys = (env.PRIVATE_KEY ?? []).map((key) => key.replace(/^0x/, '').toLowerCase())
  const newOne = (name: string): string => `${name}=… (\`${ownCommand('keys new')}\` makes one)`
  const isGuessable = secret !== undefined && isWeak(secret)
  const isSame = keys.some((key) => key === secret?.toLowerCase())
  const ofSecrets = [
    isGuessable && change('weak-secret', 'CHALLENGE_SECRET can be guessed', newOne('CHALLENGE_SECRET')),
    keys.some((key) => KNOWN_KEY.test(key)) &&
      change('weak-key', 'PRIVATE_KEY is known or can be guessed', newOne('PRIVATE_KEY')),
    isSame && change('one-secret', 'PRIVATE_KEY and CHALLENGE_SECRET are the same', newOne('CHALLENGE_SECRET'))
  ]
  const url = parseHttpUrl(text)
  const warnings = findSettingWarnings(env).map(({ id, what, remedy }) =>
    (id === 'service-url' ? change : note)(id, what, remedy)
  )
  if (url === undefined) return [...ofSecrets, ...warnings]
  const { origin, hostname, protocol } = url
  const isUnnamed = given === undefined && !/^(?:localhost|127\..*|::1)$/.test(host)
  const unnamed = `HOST is ${host}, and ${variable} is not set`
  const behindProxy = `${origin} is https, so a proxy is in front, and TRUST_PROXY is off`
  const showsPage = env.PAGE && name === 'auth' && !isLoopbackHost(hostname)
  return [
    ...ofSecrets,
    isUnnamed && change('service-url', unnamed, `${variable}=https://<host that users see>`),
    protocol === 'https:' && trusted === false && change('trust-proxy', behindProxy, 'TRUST_PROXY=1'),
    ...warnings,
    showsPage && note('demo-page', `${origin} shows the demo page`, 'PAGE=false'),
    createHttpFinding({ url, usesCookies: env.USE_COOKIES === true }, variable),
    ...checkPages(env, url)
  ]
}

/** Pages of other origins that the environment names. */
function checkPages(env: ServerEnv, url: URL): Found {
  const { TRUSTED_ORIGINS: trusted, CORS_ORIGINS: readable } = env
  const { LOGIN_DOMAINS: domains = [], USE_COOKIES: usesCookies = false } = env
  const accepted = acceptedLoginDomains(url.href.replace(/\/$/, ''), domains)
  const origins = [...new Set([...trusted, ...readable])].filter((origin) => origin !== url.origin)
  const what = `${accepted.length} login domains instead of at most ${MAX_LOGIN_DOMAINS}`
  const ofDomains = accepted.length > MAX_LOGIN_DOMAINS && change('login-domains', what, 'LOGIN_DOMAINS=…')
  const ofPages = origins.flatMap((origin) => {
    const { host } = new URL(origin)
    const createRemedy = (variable: string, present: readonly string[], next = origin): string =>
      `${variable}=${[...present, next].join(',')}`
    const isTrusted = trusted.includes(origin)
    const isSite = env.SIWE === false || isTrusted || accepted.includes(host)
    const trustLine = createRemedy('TRUSTED_ORIGINS', trusted)
    const unreadable = `${origin} is not in CORS_ORIGINS`
    return [
      !readable.includes(origin) && note('cors-origins', unreadable, createRemedy('CORS_ORIGINS', readable)),
      createOtherSiteFinding(origin, { url, usesCookies }),
      usesCookies && !isTrusted && createForeignPageFinding(origin, url, trustLine),
      !isSite && foreignSite(origin, trustLine),
      !accepted.includes(host) && createLoginDomainFinding(origin, createRemedy('LOGIN_DOMAINS', domains, host))
    ]
  })
  return [ofDomains, ...ofPages]
}

/** Tokens that travel in the clear. */
export function createHttpFinding({ url, usesCookies }: Address, variable: string): Finding | false {
  const id = usesCookies ? 'cookies-over-http' : 'http'
  const isOpen = url.protocol === 'http:' && !isLoopbackHost(url.hostname)
  return isOpen && change(id, `${url.origin} is http`, `${variable}=https://${url.host}`)
}

/** Cookies that no browser sends. */
export function createOtherSiteFinding(origin: string, { url, usesCookies }: Address): Finding | false {
  const remedy = `USE_COOKIES=false, or serve the page below ${findSite(url.origin)}`
  const isOther = usesCookies && findSite(origin) !== findSite(url.origin)
  return isOther && change('same-site', `${origin} is another site than ${url.origin}`, remedy)
}

/** A page of the same site that is no trusted origin. */
export function createForeignPageFinding(origin: string, url: URL, remedy: string): Finding | false {
  return (
    findSite(origin) === findSite(url.origin) && change('trusted-origins', `${origin} is no trusted origin`, remedy)
  )
}

/** States that EIP-4361 messages of a page are refused. */
export function foreignSite(origin: string, remedy: string): Finding {
  return note('siwe-domain', `EIP-4361 messages of ${origin} are refused`, remedy)
}

/** A page for whose host no signature logs in. */
export function createLoginDomainFinding(origin: string, remedy: string): Finding {
  return note('login-domains', `${new URL(origin).host} is no login domain`, remedy)
}

/**
 * The site of an origin, for SameSite: scheme and registrable domain. Public suffixes of two labels are recognised by
 * their form (`co.uk`, `com.br`), because the list of all of them is larger than this program.
 *
 * @see RFC 6265bis, section 5.2; HTML Standard, "schemelessly same site" and "same site"
 */
export function findSite(origin: string): string {
  const { protocol, hostname } = new URL(origin)
  const labels = hostname.split('.')
  if (/^[\d.]+$|^\[/.test(hostname) || labels.length < 2) return `${protocol}//${hostname}`
  const isSecondLevel = /^(?:ac|co|com|edu|gob|gov|net|org)$/.test(labels.at(-2) ?? '') && labels.at(-1)?.length === 2
  return `${protocol}//${labels.slice(isSecondLevel ? -3 : -2).join('.')}`
}

/** Words, repetitions, and less than so many bits by the frequency of the characters. */
export function isWeak(secret: string): boolean {
  const counts = new Map<string, number>()
  for (const character of secret) counts.set(character, (counts.get(character) ?? 0) + 1)
  const bits = [...counts.values()].reduce((sum, count) => sum - count * Math.log2(count / secret.length), 0)
  const isOfWords = /secret|passw|change.?me|example|123456|qwerty/i.test(secret)
  return bits < LEAST_SECRET_BITS || isOfWords || /^(.{1,16})\1+$/s.test(secret)
}
