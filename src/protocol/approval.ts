// Neither commands nor breaks of lines, nor what turns the direction of the text behind it.
const LINE = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]{1,500}$/u

/** Whether a statement of EIP-4361 is that of an approval; its group is the line for people. */
export const APPROVAL_STATEMENT = /^Approve \S+ \S+: (.+)$/

/** What a user approves, `path` with its query; undefined where `line` has not 1 to 500 printable characters. */
export function approvalStatement(method: string, path: string, line: unknown): string | undefined {
  return typeof line === 'string' && LINE.test(line) ? `Approve ${method} ${path}: ${line}` : undefined
}
