import { parseHttpUrl } from './parse-url.js'

/** Maximum number of accepted domains. Each costs one key recovery for every invalid signature. */
export const MAX_LOGIN_DOMAINS = 6

/** First line of a signed message: `login` is `Login to <domain>`; `url` is `URL: <domain>`, as rLogin writes it. */
export type LoginDialect = 'login' | 'url'

/** Whether a value is a `LoginDialect`. */
export function isLoginDialect(value: unknown): value is LoginDialect {
  return value === 'login' || value === 'url'
}

/**
 * Lists the accepted texts after `Login to `, the usual one first. They never depend on the request, because an
 * attacker controls the `Host` header.
 * @param extraDomains - `loginDomains` of the configuration
 */
export function acceptedLoginDomains(serviceUrl: string, extraDomains: readonly string[]): string[] {
  const url = parseHttpUrl(serviceUrl)
  const serviceDomains = url === undefined ? [serviceUrl] : [url.host, url.hostname, serviceUrl]
  return [...new Set([...serviceDomains, ...extraDomains])]
}

/** Returns the message that a wallet signs to log in. @see specification, "Message to be signed" */
export function loginMessage(domain: string, challenge: string, dialect?: LoginDialect): string {
  return `${dialect === 'url' ? 'URL: ' : 'Login to '}${domain}\nVerification code: ${challenge}`
}

/**
 * Returns the message that a wallet signs to sign up. Without credentials it equals the login message. Credentials are
 * joined by commas, which no compact JWT contains.
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
 * Lists the messages that a wallet may sign to sign up. There is one with credentials; without them, published clients
 * write the third line in four ways.
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

/** The accepted forms of a login message. */
export interface AcceptedForms {
  domains: readonly string[]
  dialects: readonly LoginDialect[]
  /** Credentials of a sign up. Undefined for a login. */
  credentialJwts: readonly string[] | undefined
}

/**
 * Lists the accepted messages over a challenge, the likeliest first: by form, then by domain, because a usual form for
 * an unusual domain is likelier than the reverse. Their number does not depend on the challenge.
 */
export function listAcceptedMessages(forms: AcceptedForms, challenge: string): string[] {
  const { domains, dialects, credentialJwts } = forms
  const messagesByDomain = dialects.flatMap((dialect) =>
    domains.map((domain) =>
      credentialJwts === undefined
        ? [loginMessage(domain, challenge, dialect)]
        : signUpMessages(domain, challenge, credentialJwts, dialect)
    )
  )
  const [firstForms = []] = messagesByDomain
  return firstForms.flatMap((_, form) => messagesByDomain.flatMap((messages) => messages[form] ?? []))
}
