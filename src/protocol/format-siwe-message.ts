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

/** The text that a wallet signs at `/siwe/verify`, of fields as they are. @see EIP-4361, "ABNF Message Format" */
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

/** Whether a statement of EIP-4361 is that of an approval; its group is the line for people. */
export const APPROVAL_STATEMENT = /^Approve \S+ \S+: (.+)$/

/** What a user approves, `path` with its query; undefined where `line` has not 1 to 500 printable characters. */
export function approvalStatement(method: string, path: string, line: unknown): string | undefined {
  return typeof line === 'string' && LINE.test(line) ? `Approve ${method} ${path}: ${line}` : undefined
}
