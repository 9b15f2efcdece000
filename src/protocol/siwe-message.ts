import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
import { parseDateTime } from './encoding.js'
import type { SiweMessage } from './format-siwe-message.js'
import { isLoopbackHost, parseHttpUrl } from './parse-url.js'

/** Maximum length of a message, in bytes of UTF-8. It also limits the fields. */
export const MAX_SIWE_MESSAGE_BYTES = 8_192

/** Maximum number of entries in `Resources:`. */
export const MAX_SIWE_RESOURCES = 20

/** Maximum length of a received host or scheme in a log line: the longest valid host name. */
const MAX_SHOWN_LENGTH = 253

/** Tolerance for the clock of the client that wrote a message, in seconds. */
const TIME_TOLERANCE_SECONDS = 60

const HEADER =
  /^(?:([A-Za-z][A-Za-z0-9+.-]*):\/\/)?((?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?) wants you to sign in with your [A-Za-z0-9 ._-]{1,40} account:$/
const ADDRESS = /^0x[0-9a-fA-F]{40}$/
// Printable characters of any script.
const STATEMENT = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]{1,2048}$/u
const URI = /^[A-Za-z][A-Za-z0-9+.-]*:(?:[\w\-.~:/?#[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*$/
const CHAIN_ID = /^(?:eip155:)?([1-9]\d{0,14})$/
const NONCE = /^[A-Za-z0-9]{8,}$/
const ACCOUNT_ID = /^eip155:([1-9]\d{0,14}):(0x[0-9a-f]{40})$/
const REQUEST_ID = /^(?:[\w\-.~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2}){0,256}$/

/** Grammar of a field's value. */
type Form = Pick<RegExp, 'test'>
const DATE_TIME: Form = { test: (text) => parseDateTime(text) !== undefined }
const DATE_TIME_FORM = 'a date and time of RFC 3339'

/**
 * Parses an EIP-4361 message: each field once and in order, with nothing before or after. Line ends are all LF or all
 * CRLF.
 *
 * It also accepts deviations of published wallets and libraries: any name before `account:`, `Chain ID: eip155:1`, one
 * to three blank lines instead of a statement, an address without checksum, and a statement in any script.
 * @throws DidAuthError ERR_MESSAGE, whose reason names the line
 * @see EIP-4361, "Message Format"
 */
export function parseSiweMessage(text: string): SiweMessage {
  if (text.length > MAX_SIWE_MESSAGE_BYTES || Buffer.byteLength(text) > MAX_SIWE_MESSAGE_BYTES) {
    throw createRefusal('length', `at most ${String(MAX_SIWE_MESSAGE_BYTES)} bytes`)
  }
  const lines = new Lines(text)
  const [, scheme, domain = ''] = lines.match('domain', HEADER, '[scheme://]<domain> wants you to sign in with …')
  const [address = ''] = lines.match('address', ADDRESS, '0x and 40 hexadecimal digits')
  const statement = lines.statement()
  const uri = lines.field('URI', URI, 'a URI of RFC 3986')
  lines.field('Version', /^1$/, '1')
  const chain = lines.field('Chain ID', CHAIN_ID, '[eip155:]<number>')
  const nonce = lines.field('Nonce', NONCE, '8 or more letters and digits')
  const issuedAt = lines.field('Issued At', DATE_TIME, DATE_TIME_FORM)
  const optional = {
    scheme,
    statement,
    expirationTime: lines.optional('Expiration Time', DATE_TIME, DATE_TIME_FORM),
    notBefore: lines.optional('Not Before', DATE_TIME, DATE_TIME_FORM),
    requestId: lines.optional('Request ID', REQUEST_ID, 'at most 256 characters of a path segment'),
    resources: lines.resources()
  }
  lines.end()
  const chainId = Number(CHAIN_ID.exec(chain)?.[1])
  return { domain, address, uri, chainId, nonce, issuedAt, ...optional }
}

/**
 * Asserts that a message is for this site: its domain and the host of its http(s) URI are accepted, and its scheme is
 * absent, `https`, or `http` for this machine.
 * @param isOwnDomain - accepts hosts in lower case, with their port
 * @throws DidAuthError ERR_MESSAGE_DOMAIN
 */
export function assertOwnSite(
  { scheme, domain, uri }: Pick<SiweMessage, 'scheme' | 'domain' | 'uri'>,
  isOwnDomain: (domain: string) => boolean
): void {
  const host = domain.toLowerCase()
  if (!isOwnDomain(host))
    throw createForeignRefusal('domain', 'one of loginDomains, serviceUrl, trustedOrigins, siwe.domains', host)
  const usedScheme = scheme?.toLowerCase() ?? 'https'
  const isLocal = usedScheme === 'http' && isLoopbackHost(host.replace(/:\d+$/, ''))
  if (usedScheme !== 'https' && !isLocal)
    throw createForeignRefusal('scheme', 'https, or http on this machine', usedScheme)
  const uriHost = parseHttpUrl(uri)?.host ?? ''
  if (uriHost === '' || !isOwnDomain(uriHost)) {
    throw createForeignRefusal('URI', 'an http(s) URL whose host is accepted as domain', uriHost)
  }
}

/** Checks `Expiration Time` and `Not Before` with a tolerance of 60 s. @throws DidAuthError ERR_MESSAGE */
export function assertInTime(
  { expirationTime, notBefore }: Pick<SiweMessage, 'expirationTime' | 'notBefore'>,
  nowSeconds: number
): void {
  const endSeconds = parseDateTime(expirationTime) ?? Infinity
  const startSeconds = parseDateTime(notBefore) ?? -Infinity
  if (nowSeconds >= endSeconds + TIME_TOLERANCE_SECONDS) throw createRefusal('Expiration Time', 'in the future')
  if (nowSeconds < startSeconds - TIME_TOLERANCE_SECONDS) throw createRefusal('Not Before', 'in the past')
}

/** Account that signed an EIP-4361 message, on the chain that the message names. */
export interface Account {
  /** Lower case, with `0x`. */
  address: string
  chainId: number
}

/** Returns the id of an account for the claim `acct`. @see CAIP-10 */
export function toAccountId({ address, chainId }: Account): string {
  return `eip155:${String(chainId)}:${address}`
}

/** Parses the account in a claim `acct`; undefined for any other value, as after a login by `/auth`. */
export function parseAccountId(claim: unknown): Account | undefined {
  const [, chainId, address] = typeof claim === 'string' ? (ACCOUNT_ID.exec(claim) ?? []) : []
  return chainId === undefined || address === undefined ? undefined : { address, chainId: Number(chainId) }
}

/** Reader of the lines of a message. Its errors contain the number of the line. */
class Lines {
  readonly #lines: readonly string[]
  #at = 0

  constructor(text: string) {
    this.#lines = text.split(text.includes('\r\n') ? '\r\n' : '\n')
  }

  /** Reads a line without a label, and returns the groups of the expression. */
  match(name: string, form: RegExp, expected: string): (string | undefined)[] {
    const groups = form.exec(this.#next())
    if (groups === null) throw this.#createRefusal(name, expected)
    this.#at += 1
    return [...groups]
  }

  /** Reads the value of `<label>: <value>`. */
  field(label: string, form: Form, expected: string): string {
    const line = this.#next()
    const value = line.slice(label.length + 2)
    if (!line.startsWith(`${label}: `) || !form.test(value)) throw this.#createRefusal(label, `${label}: ${expected}`)
    this.#at += 1
    return value
  }

  /** Reads a field that may be absent. */
  optional(label: string, form: Form, expected: string): string | undefined {
    return this.#next().startsWith(`${label}:`) ? this.field(label, form, expected) : undefined
  }

  /** Reads one to three blank lines, or a statement with a blank line before it and after it. */
  statement(): string | undefined {
    const blank = (): unknown => this.match('statement', /^$/, 'a blank line')
    blank()
    const isStatement = this.#next() !== '' && this.#lines[this.#at + 1] === ''
    if (!isStatement) {
      for (let more = 0; more < 2 && this.#next() === ''; more += 1) blank()
      return undefined
    }
    const [statement] = this.match('statement', STATEMENT, 'at most 2048 printable characters')
    blank()
    return statement
  }

  resources(): string[] | undefined {
    if (this.#next() !== 'Resources:') return undefined
    this.#at += 1
    const resources: string[] = []
    while (this.#at < this.#lines.length) {
      const expected = `at most ${String(MAX_SIWE_RESOURCES)} lines of "- " and a URI, then the end`
      const line = this.#next()
      const isResource = line.startsWith('- ') && URI.test(line.slice(2)) && resources.length < MAX_SIWE_RESOURCES
      if (!isResource) throw this.#createRefusal('Resources', expected)
      resources.push(line.slice(2))
      this.#at += 1
    }
    return resources
  }

  end(): void {
    if (this.#at < this.#lines.length) throw this.#createRefusal('end', 'no other line: each field once, in order')
  }

  #next(): string {
    return this.#lines[this.#at] ?? ''
  }

  #createRefusal(field: string, expected: string): DidAuthError {
    return createRefusal(field, expected, this.#at + 1)
  }
}

function createRefusal(field: string, expected: string, line?: number): DidAuthError {
  return new DidAuthError('ERR_MESSAGE', { reason: { check: 'message', field, expected, ...(line && { line }) } })
}

/** Creates the refusal of a message for another site. @param got - a valid host or scheme, so that it may be logged */
function createForeignRefusal(field: string, expected: string, got: string): DidAuthError {
  const reason = { check: 'message', field, expected, got: got.slice(0, MAX_SHOWN_LENGTH), option: 'siwe' }
  return new DidAuthError('ERR_MESSAGE_DOMAIN', { reason })
}
