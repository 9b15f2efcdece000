import { isLoopbackHost } from 'express-did-auth/server-kit'
import { change, note, type Checks } from './finding.js'

/** Where a service is, by its environment or its answers. */
export interface Address {
  url: URL
  usesCookies: boolean
  /** The variable that names the URL. */
  urlVariable: string
}

/** A page of another origin that uses a service. */
export interface Page extends Pick<Address, 'url' | 'usesCookies'> {
  origin: string
  /** Whether the service accepts its requests with cookies. */
  isTrusted: () => boolean | Promise<boolean>
  /** Whether a signature for the page's host logs in. */
  isLoginDomain: () => boolean | Promise<boolean>
  /** The lines that would change these. */
  lines: { trustedOrigins: string; loginDomains: string }
}

const overHttp = ({ url, urlVariable }: Address, isAsked: boolean) =>
  change(
    isAsked && url.protocol === 'http:' && !isLoopbackHost(url.hostname),
    `${url.origin} is http`,
    `${urlVariable}=https://${url.host}`
  )

export const addressChecks: Checks<Address> = {
  http: (address) => overHttp(address, !address.usesCookies),
  'cookies-over-http': (address) => overHttp(address, address.usesCookies)
}

export const pageChecks: Checks<Page> = {
  'same-site': ({ origin, url, usesCookies }) => {
    const remedy = `USE_COOKIES=false, or serve the page below ${siteOf(url.origin)}`
    return change(usesCookies && !isSameSite(origin, url), `${origin} is another site than ${url.origin}`, remedy)
  },
  'trusted-origins': async ({ origin, url, isTrusted, lines }) => {
    const isRefused = isSameSite(origin, url) && !(await isTrusted())
    return change(isRefused, `${origin} is no trusted origin`, lines.trustedOrigins)
  },
  'login-domains': async ({ origin, isLoginDomain, lines }) =>
    note(!(await isLoginDomain()), `${new URL(origin).host} is no login domain`, lines.loginDomains)
}

function isSameSite(origin: string, url: URL): boolean {
  return siteOf(origin) === siteOf(url.origin)
}

/**
 * The site of an origin, for SameSite: scheme and registrable domain. The public suffixes of two labels are told by
 * their form (`co.uk`, `com.br`), because the list of all of them is larger than this program.
 *
 * @see RFC 6265bis, section 5.2; HTML Standard, "schemelessly same site" and "same site"
 */
export function siteOf(origin: string): string {
  const { protocol, hostname } = new URL(origin)
  const labels = hostname.split('.')
  if (/^[\d.]+$|^\[/.test(hostname) || labels.length < 2) return `${protocol}//${hostname}`
  const isSecondLevel = /^(?:ac|co|com|edu|gob|gov|net|org)$/.test(labels.at(-2) ?? '') && labels.at(-1)?.length === 2
  return `${protocol}//${labels.slice(isSecondLevel ? -3 : -2).join('.')}`
}
