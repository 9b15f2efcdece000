import { parseHttpUrl } from './parse-url.js'

/** More accepted domains than this is a configuration error: each costs a key recovery for every bad signature. */
export const MAX_LOGIN_DOMAINS = 6

/** Beginning of a signed message's first line: `url` is written by rLogin and the client of rif-data-vault. */
export type LoginDialect = 'login' | 'url'

/** Whether a value is a `LoginDialect`. */
export function isLoginDialect(value: unknown): value is LoginDialect {
  return value === 'login' || value === 'url'
}

/**
 * The texts that are accepted after `Login to `, the usual one first. No part of the request is used: an attacker
 * controls the `Host` header.
 * @param extraDomains - `loginDomains` of the configuration
 */
export function acceptedLoginDomains(serviceUrl: string, extraDomains: readonly string[]): string[] {
  const url = parseHttpUrl(serviceUrl)
  const own = url === undefined ? [serviceUrl] : [url.host, url.hostname, serviceUrl]
  return [...new Set([...own, ...extraDomains])]
}

/** Returns the message that a wallet signs to log in. @see specification, "Message to be signed" */
export function loginMessage(domain: string, challenge: string, dialect?: LoginDialect): string {
  return `${dialect === 'url' ? 'URL: ' : 'Login to '}${domain}\nVerification code: ${challenge}`
}

/**
 * The message that a wallet signs to sign up. Without credentials it is that of a login. A compact JWT has no comma, so
 * that their join is unambiguous.
 * @see specification, "Message to be signed"
 */
export function signUpMessage(
  domain: string,
  challenge: string,
  credentialJwts: readonly string[],
  dialect?: LoginDialect
): string {
  const start = loginMessage(domain, challenge, dialect)
  return credentialJwts.length > 0 ? `${start}\nMy credentials are: ${credentialJwts.join(',')}` : start
}

/**
 * The messages that a wallet may sign to sign up. With credentials there is one; without, published clients write the
 * third line in four ways.
 */
export function signUpMessages(
  domain: string,
  challenge: string,
  credentialJwts: readonly string[],
  dialect?: LoginDialect
): string[] {
  const usual = signUpMessage(domain, challenge, credentialJwts, dialect)
  if (credentialJwts.length > 0) return [usual]
  return [usual, `${usual}\nMy credentials are: `, `${usual}\nMy credentials are:`, `${usual}\n`]
}
