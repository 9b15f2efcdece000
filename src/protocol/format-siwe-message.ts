/** The fields of an EIP-4361 message, as it spells them. */
export interface SiweMessage {
  scheme?: string | undefined
  /** Host of the page that asks, with its port. */
  domain: string
  /** `0x` and 40 hex digits, in any letter case. */
  address: string
  statement?: string | undefined
  uri: string
  chainId: number
  nonce: string
  /** RFC 3339, as are the two that follow. */
  issuedAt: string
  expirationTime?: string | undefined
  notBefore?: string | undefined
  requestId?: string | undefined
  resources?: readonly string[] | undefined
}

/** Formats the text that a wallet signs for `/siwe/verify`, without checks. @see EIP-4361, "ABNF Message Format" */
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
    ...(resources?.length ? ['Resources:', ...resources.map((one) => `- ${one}`)] : [])
  ].join('\n')
}

// Neither commands nor breaks of lines, nor what turns the direction of the text behind it.
const LINE = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]{1,500}$/u

/** Number of characters of a path, with its query, that a statement shows. */
const MAX_SHOWN_PATH_LENGTH = 200

/** Statements that never log a user in: those of approvals, in this form or an earlier one. */
export const RESERVED_STATEMENT = /^Approve(?: [^ ]+ [^ ]+)?: /

// No path has a blank, so that the last blanks tell method, path and hash from the line.
const APPROVAL_STATEMENT = /^Approve: (.+) \(([^ ]+) ([^ ]+?)(?:\.\.\. sha256:([0-9a-f]{64}))?\)$/

/** The request that a user approves, as a statement names it. */
export interface ApprovedRequest {
  /** The text for people. */
  line: string
  method: string
  /** The path with its query; of a long one its first 200 characters. */
  path: string
  /** SHA-256 of the whole path with its query, in hexadecimal, where `path` was cut. */
  pathHash?: string
}

/**
 * Returns the statement that a user signs to approve a request: the line for people first, then the request. A path of
 * more than 200 characters is cut, and its hash follows: one statement means one method, path and query.
 * @param request - `path` with its query and its SHA-256 in hexadecimal, which counts where the path is cut
 * @returns undefined where `line` has not 1 to 500 printable characters
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
