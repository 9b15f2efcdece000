/** Fields of an EIP-4361 message, in the spelling of the message. */
export interface SiweMessage {
  /** Scheme before the domain, such as `https`. Absent: none. */
  scheme?: string | undefined
  /** Host of the page that requests the signature, with its port. */
  domain: string
  /** `0x` and 40 hexadecimal digits, in any letter case. */
  address: string
  /** One line for the user. Absent: none. */
  statement?: string | undefined
  /** URI of the service that the login is for. */
  uri: string
  /** Id of the account's chain, at least 1. */
  chainId: number
  /** Nonce of the service, at least 8 letters and digits. */
  nonce: string
  /** Date and time of RFC 3339. */
  issuedAt: string
  /** Date and time of RFC 3339. */
  expirationTime?: string | undefined
  /** Date and time of RFC 3339. */
  notBefore?: string | undefined
  /** Id of the request; of an approval, SHA-256 of the body in hex. Absent: none. */
  requestId?: string | undefined
  /** URIs that the text lists. Absent: no list. */
  resources?: readonly string[] | undefined
}

/** Formats the text that a wallet signs. It does not check the fields. @see EIP-4361, "ABNF Message Format" */
export function formatSiweMessage(fields: SiweMessage): string {
  const { scheme, domain, address, statement, resources } = fields
  const lines = [
    ['URI', fields.uri],
    ['Version', 1],
    ['Chain ID', fields.chainId],
    ['Nonce', fields.nonce],
    ['Issued At', fields.issuedAt],
    ['Expiration Time', fields.expirationTime],
    ['Not Before', fields.notBefore],
    ['Request ID', fields.requestId]
  ].filter(([, value]) => value !== undefined)
  return [
    `${scheme ? `${scheme}://` : ''}${domain} wants you to sign in with your Ethereum account:`,
    `${address}\n`,
    statement ? `${statement}\n` : '',
    ...lines.map(([name, value]) => `${name}: ${value}`),
    ...(resources?.length ? ['Resources:', ...resources.map((resource) => `- ${resource}`)] : [])
  ].join('\n')
}

// One line without control characters, line separators, and characters that change the direction of text.
const LINE = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]{1,500}$/u

/** Maximum length of path and query in a statement, in characters. */
const MAX_SHOWN_PATH_LENGTH = 200

/** Statements of approvals, in the current form or an earlier one. They never log a user in. */
export const RESERVED_STATEMENT = /^Approve(?: [^ ]+ [^ ]+)?: /

// A path contains no blank, so that the last blanks separate the line, method, path and hash.
const APPROVAL_STATEMENT = /^Approve: (.+) \(([^ ]+) ([^ ]+?)(?:\.\.\. sha256:([0-9a-f]{64}))?\)$/

/** The request that a user approves, as the signed statement names it. */
export interface ApprovedRequest {
  /** Text that tells the user what the request does. */
  line: string
  /** HTTP method in upper case. */
  method: string
  /** The path with its query, cut to 200 characters. */
  path: string
  /** SHA-256 of the whole path with its query, in hexadecimal. Present only if `path` was cut. */
  pathHash?: string
}

/**
 * Returns the statement that a user signs to approve a request: the line for the user, then the request. A path of more
 * than 200 characters is cut and followed by its hash, so that each statement fits exactly one method, path and query.
 * @param request - `path` with its query; `pathHash`, its SHA-256 in hexadecimal, is used only if the path is cut
 * @returns undefined unless `line` is 1 to 500 printable characters
 */
export function approvalStatement(
  line: unknown,
  { method, path, pathHash }: { method: string; path: string; pathHash: string }
): string | undefined {
  if (typeof line !== 'string' || !LINE.test(line)) return undefined
  const isLong = path.length > MAX_SHOWN_PATH_LENGTH
  const target = isLong ? `${path.slice(0, MAX_SHOWN_PATH_LENGTH)}... sha256:${pathHash}` : path
  return `Approve: ${line} (${method} ${target})`
}

/** Parses the statement of an approval; undefined for any other text. */
export function parseApprovalStatement(statement: unknown): ApprovedRequest | undefined {
  const [, line, method, path, pathHash] = APPROVAL_STATEMENT.exec(String(statement)) ?? []
  if (line === undefined || method === undefined || path === undefined) return undefined
  return { line, method, path, ...(pathHash !== undefined && { pathHash }) }
}
