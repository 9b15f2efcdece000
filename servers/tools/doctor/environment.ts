import { acceptedLoginDomains, MAX_LOGIN_DOMAINS } from 'express-did-auth/protocol'
import { isLoopbackHost, isOrigin, parseHttpUrl } from 'express-did-auth/server-kit'
import { findSettingWarnings } from '../../config/setting-warnings.js'
import type { ServerEnv } from '../../config/read-env.js'
import { ownCommand } from '../../config/startup-error.js'
import { change, note, type Finding, type Findings } from './finding.js'
import { findSite, isSameSite } from './site.js'

const LEAST_SECRET_BITS = 100
/** First digits of the published keys of development chains, and keys that repeat one byte. */
const KNOWN_KEY = /^(?:ac0974bec39a17e3|59c6995e998f97a5|5de4111afa1a4b94|0{32})|^(..)\1+$/

/** Address of a service, from its environment or its responses. */
type Address = { url: URL; usesCookies: boolean }

/** Problems of a page in words, which the environment or a running service reveals. */
export const pageProblems = {
  otherSite: (origin: string, url: URL): string => `${origin} and ${url.origin} are different sites`,
  untrusted: (origin: string): string => `${origin} is not a trusted origin`,
  loginDomain: (origin: string): string => `${new URL(origin).host} is not a login domain`,
  siweDomain: (origin: string): string => `The service refuses EIP-4361 messages of ${origin}`
}

/** Finds the problems of a server that its environment reveals without a request. */
export function checkEnv(env: ServerEnv): Findings {
  const { address, name, CHALLENGE_SECRET: secret, SERVICE_URL: configuredUrl, HOST: host, TRUST_PROXY: trusted } = env
  const variable = address.variable.replace('PORT', 'SERVICE_URL')
  const text = configuredUrl ?? `http://localhost:${address.port}`
  const keys = (env.PRIVATE_KEY ?? []).map((key) => key.replace(/^0x/, '').toLowerCase())
  const createRemedy = (name: string): string => `${name}=… (\`${ownCommand('keys new')}\` creates one)`
  const isGuessable = secret !== undefined && isWeak(secret)
  const isSame = keys.some((key) => key === secret?.toLowerCase())
  const secretFindings = [
    isGuessable && change('weak-secret', 'CHALLENGE_SECRET can be guessed', createRemedy('CHALLENGE_SECRET')),

    keys.some((key) => KNOWN_KEY.test(key)) &&
      change('weak-key', 'PRIVATE_KEY is published or can be guessed', createRemedy('PRIVATE_KEY')),
    isSame && change('one-secret', 'PRIVATE_KEY and CHALLENGE_SECRET are the same', createRemedy('CHALLENGE_SECRET'))
  ]
  const url = parseHttpUrl(text)
  const warnings = findSettingWarnings(env).map(({ id, problem, remedy }) =>
    (id === 'service-url' ? change : note)(id, problem, remedy)
  )
  if (url === undefined) return [...secretFindings, ...warnings]
  const { origin, hostname, protocol } = url
  const isUrlMissing = configuredUrl === undefined && !/^(?:localhost|127\..*|::1)$/.test(host)
  const missingUrl = `HOST is ${host}, but ${variable} is not set`
  const untrustedProxy = `${origin} is https, so the server is behind a proxy, but TRUST_PROXY is off`
  const showsPage = env.PAGE && name === 'auth' && !isLoopbackHost(hostname)
  return [
    ...secretFindings,
    isUrlMissing && change('service-url', missingUrl, `${variable}=https://<host that users see>`),
    protocol === 'https:' && trusted === false && change('trust-proxy', untrustedProxy, 'TRUST_PROXY=1'),
    ...warnings,
    showsPage && note('demo-page', `${origin} shows the demo page`, 'PAGE=false'),
    createHttpFinding({ url, usesCookies: env.USE_COOKIES === true }, variable),
    ...checkPages(env, url)
  ]
}

/** Checks the pages of other origins that the environment names. */
function checkPages(env: ServerEnv, url: URL): Findings {
  const { TRUSTED_ORIGINS: trusted, CORS_ORIGINS: readable } = env
  const { LOGIN_DOMAINS: domains = [], USE_COOKIES: usesCookies = false } = env
  const acceptedDomains = acceptedLoginDomains(url.href.replace(/\/$/, ''), domains)
  // Origins of apps, such as tauri://localhost, have no site, and only read responses.
  const pages = [...new Set([...trusted, ...readable])].filter(isOrigin)
  const origins = pages.filter((origin) => origin !== url.origin)
  const tooMany = `${acceptedDomains.length} login domains are configured; the maximum is ${MAX_LOGIN_DOMAINS}`
  const domainFinding =
    acceptedDomains.length > MAX_LOGIN_DOMAINS && change('login-domains', tooMany, 'LOGIN_DOMAINS=…')
  const pageFindings = origins.flatMap((origin) => {
    const { host } = new URL(origin)
    const appendToList = (variable: string, list: readonly string[], entry = origin): string =>
      `${variable}=${[...list, entry].join(',')}`
    const isTrusted = trusted.includes(origin)
    const isOwnSite = isSameSite(origin, url)
    const isSiweAccepted = env.SIWE === false || isTrusted || acceptedDomains.includes(host)
    const trustLine = appendToList('TRUSTED_ORIGINS', trusted)
    const unreadable = `${origin} is not in CORS_ORIGINS`
    return [
      !readable.includes(origin) && note('cors-origins', unreadable, appendToList('CORS_ORIGINS', readable)),
      usesCookies && !isOwnSite && change('same-site', pageProblems.otherSite(origin, url), createSiteRemedy(url)),
      usesCookies && !isTrusted && isOwnSite && change('trusted-origins', pageProblems.untrusted(origin), trustLine),
      !isSiweAccepted && note('siwe-domain', pageProblems.siweDomain(origin), trustLine),
      !acceptedDomains.includes(host) &&
        note('login-domains', pageProblems.loginDomain(origin), appendToList('LOGIN_DOMAINS', domains, host))
    ]
  })
  return [domainFinding, ...pageFindings]
}

/** Reports a service URL over which tokens are sent unencrypted. */
export function createHttpFinding({ url, usesCookies }: Address, variable: string): Finding | false {
  const id = usesCookies ? 'cookies-over-http' : 'http'
  const isUnencrypted = url.protocol === 'http:' && !isLoopbackHost(url.hostname)
  return isUnencrypted && change(id, `${url.origin} uses http`, `${variable}=https://${url.host}`)
}

/** Returns the remedy for a page on another site, to which browsers attach no cookies. */
export function createSiteRemedy(url: URL): string {
  return `USE_COOKIES=false, or serve the page below ${findSite(url.origin)}`
}

/** Whether a secret contains common words, repeats itself, or has under 100 bits by its character frequencies. */
export function isWeak(secret: string): boolean {
  const counts = new Map<string, number>()
  for (const character of secret) counts.set(character, (counts.get(character) ?? 0) + 1)
  const bits = [...counts.values()].reduce((sum, count) => sum - count * Math.log2(count / secret.length), 0)
  const hasCommonWord = /secret|passw|change.?me|example|123456|qwerty/i.test(secret)
  return bits < LEAST_SECRET_BITS || hasCommonWord || /^(.{1,16})\1+$/s.test(secret)
}
