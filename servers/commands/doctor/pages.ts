import { acceptedLoginDomains, loginMessage } from 'express-did-auth/protocol'
import type { ServerEnv } from '../../config/read-env.js'
import { sessionOf, type Exchange, type ServiceUnderTest } from '../conformance/service.js'
import { finding, siteOf, type Finding } from './finding.js'

const MAX_LOGIN_DOMAINS = 6
const NEEDED_HEADERS = ['authorization', 'content-type', 'idempotency-key']
const EXPOSED_HEADERS = ['challenge-expires-in', 'idempotent-replayed', 'retry-after', 'www-authenticate']

/** The pages that the environment names: what their browsers will refuse. */
export function pagesInEnvironment(env: ServerEnv, url: URL): Finding[] {
  const { USE_COOKIES, TRUSTED_ORIGINS: trusted, CORS_ORIGINS: readable, LOGIN_DOMAINS: domains = [] } = env
  const accepted = acceptedLoginDomains(url.href.replace(/\/$/, ''), domains)
  const findings: Finding[] = []
  if (accepted.length > MAX_LOGIN_DOMAINS) {
    const why = 'Each accepted domain costs arithmetic for every bad signature: the server does not start.'
    findings.push(
      finding(
        'login-domains',
        'change',
        `${accepted.length} login domains instead of at most 6`,
        why,
        'LOGIN_DOMAINS=…'
      )
    )
  }
  for (const origin of new Set([...trusted, ...readable])) {
    if (origin === url.origin) continue
    if (USE_COOKIES === true && siteOf(origin) !== siteOf(url.origin)) findings.push(otherSite(origin, url))
    else if (USE_COOKIES === true && !trusted.includes(origin)) {
      findings.push(untrusted(origin, `TRUSTED_ORIGINS=${[...trusted, origin].join(',')}`))
    }
    if (!readable.includes(origin)) {
      const change = `CORS_ORIGINS=${[...readable, origin].join(',')}`
      const why = 'Its pages may send requests, but their scripts cannot read the answers.'
      findings.push(finding('cors-origins', 'note', `${origin} is not in CORS_ORIGINS`, why, change))
    }
    const { host } = new URL(origin)
    if (!accepted.includes(host)) findings.push(otherDomain(origin, `LOGIN_DOMAINS=${[...domains, host].join(',')}`))
  }
  return findings
}

function otherSite(origin: string, url: URL): Finding {
  const what = `${origin} is another site than ${url.origin}`
  const why = 'The cookies are SameSite=Strict: no browser sends them with requests of its pages.'
  const change = `USE_COOKIES=false, or serve the page below ${siteOf(url.origin)}`
  return finding('same-site', 'change', what, why, change)
}

function untrusted(origin: string, change: string): Finding {
  const why = 'Its logins, refreshes and writes are 403, because a foreign page could make them as well.'
  return finding('trusted-origins', 'change', `${origin} is no trusted origin`, why, change)
}

function otherDomain(origin: string, change: string): Finding {
  const { host } = new URL(origin)
  const what = `${host} is no login domain`
  const why = `A client on ${origin} that has its users sign "Login to ${host}" gets 401; ours signs the host of the service.`
  return finding('login-domains', 'note', what, why, change)
}

/** What a browser refuses to a page of a running service, and whether the page's host is a login domain. */
export async function checkPage(service: ServiceUnderTest, origin: string, usesCookies: boolean): Promise<Finding[]> {
  const { url } = service.options
  const findings: Finding[] = []
  if (usesCookies && siteOf(origin) !== siteOf(url.origin)) findings.push(otherSite(origin, url))
  if (origin !== url.origin) findings.push(...(await corsFindings(service, origin, usesCookies)))
  const { host } = new URL(origin)
  const user = service.newUser()
  const sig = user.sign(loginMessage(host, await service.challenge('auth', user.did)))
  const accept = { Accept: 'application/problem+json' }
  const answer = await service.post(service.paths.auth, { did: user.did, sig }, accept)
  const session = sessionOf(user, answer)
  if (session !== undefined) await service.logOut(session)
  else if (/^ERR_(?:SIGNATURE|CHALLENGE)$/.test(String(answer.json.code)))
    findings.push(otherDomain(origin, `LOGIN_DOMAINS=${host}`))
  return findings
}

async function corsFindings(service: ServiceUnderTest, origin: string, usesCookies: boolean): Promise<Finding[]> {
  const requested = {
    'Access-Control-Request-Method': 'POST',
    'Access-Control-Request-Headers': NEEDED_HEADERS.join(',')
  }
  const preflight = await service.send('OPTIONS', service.paths.refreshToken, {
    headers: { Origin: origin, ...requested }
  })
  const answer = await service.post(service.paths.requestAuth, { did: service.newUser().did }, { Origin: origin })
  const isRefused = answer.status === 403 && siteOf(origin) === siteOf(service.options.url.origin)
  const refused = isRefused ? [untrusted(origin, `trustedOrigins: ['${origin}'], or TRUSTED_ORIGINS=${origin}`)] : []
  const listed = ({ headers }: Exchange, name: string): string[] =>
    (headers.get(name) ?? '').toLowerCase().split(/ *, */)
  const problems = [
    ...[preflight, answer].flatMap(({ headers }) => {
      const allowed = headers.get('access-control-allow-origin')
      const isCredentialed = !usesCookies || headers.get('access-control-allow-credentials') === 'true'
      if (allowed !== origin && (usesCookies || allowed !== '*')) return ['may not read answers']
      return isCredentialed ? [] : ['may not send its cookies']
    }),
    ...sentence(
      'may not send',
      missing(NEEDED_HEADERS, listed(preflight, 'access-control-allow-headers'), usesCookies)
    ),
    ...sentence('may not read', missing(EXPOSED_HEADERS, listed(answer, 'access-control-expose-headers'), usesCookies))
  ]
  const why = 'The browser refuses it to its scripts: logins, or safe repeats of a refresh, fail.'
  const change = `CORS_ORIGINS=${origin}, or in the cors() of your own app: allowedHeaders, exposedHeaders`
  const others = [...new Set(problems)].map((problem) =>
    finding('cors', 'change', `A page of ${origin} ${problem}`, why, change)
  )
  return [...refused, ...others]
}

function sentence(verb: string, names: readonly string[]): string[] {
  return names.length === 0 ? [] : [`${verb} ${names.join(', ')}`]
}

/** A wildcard is none where credentials are sent, and never stands for Authorization. @see Fetch Standard */
function missing(needed: readonly string[], given: readonly string[], usesCookies: boolean): string[] {
  const isAll = given.includes('*') && !usesCookies
  return needed.filter((name) => !given.includes(name) && !(isAll && name !== 'authorization'))
}
