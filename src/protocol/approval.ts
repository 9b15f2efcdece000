// Neither commands nor breaks of lines, nor what turns the direction of the text behind it.
const LINE = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]{1,500}$/u

/** Whether a statement of EIP-4361 is that of an approval; its group is the line for people. */
export const APPROVAL_STATEMENT = /^Approve \S+ \S+: (.+)$/

/**
 * The statement by which a user approves a request.
 *
 * @param path - with its query
 * @param line - for people, of 1 to 500 printable characters
 * @returns undefined for another line
 */
export function approvalStatement(method: string, path: string, line: unknown): string | undefined {
  return typeof line === 'string' && LINE.test(line) ? `Approve ${method} ${path}: ${line}` : undefined
}
