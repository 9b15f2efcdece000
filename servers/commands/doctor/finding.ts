import { printable, type Paint } from '../command-line.js'

/** Something that the operator should know. */
export interface Finding {
  /** Stable: a script may look for it. */
  id: string
  /** `change`: has to be changed. `note`: may be as intended. */
  level: 'change' | 'note'
  what: string
  why: string
  /** The line to change: of the environment, of a configuration, or a command. */
  change: string
}

/** A finding, given as its level, what, why and the line to change. */
export function finding(id: string, level: Finding['level'], what: string, why: string, change: string): Finding {
  return { id, level, what, why, change }
}

/** Findings as lines for people: what has to be changed comes first. */
export function linesOf(findings: readonly Finding[], paint: Paint): string[] {
  const [changes, notes] = [
    findings.filter(({ level }) => level === 'change'),
    findings.filter(({ level }) => level === 'note')
  ]
  const lines = [...changes, ...notes].flatMap(({ id, level, what, why, change }) => [
    `${level === 'change' ? paint('red', 'CHANGE') : paint('yellow', 'note  ')}  ${printable(what)} ${paint('dim', `(${id})`)}`,
    `        ${why}`,
    `        > ${change}`,
    ''
  ])
  if (changes.length > 0) return [...lines, paint('red', `${changes.length} to change.`)]
  return [...lines, paint('green', notes.length === 0 ? 'Nothing found.' : 'Nothing has to be changed.')]
}

/** Each finding once: several servers of one environment share most of it. */
export function unique(findings: readonly Finding[]): Finding[] {
  return [...new Map(findings.map((one) => [JSON.stringify(one), one])).values()]
}

/**
 * The site of an origin, for SameSite: scheme and registrable domain. The public suffixes of two labels are told by their
 * form (`co.uk`, `com.br`), because the list of all of them is larger than this program.
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

/** Whether a URL is of this machine, where http is private and cookies work without TLS. */
export function isLoopback(url: URL): boolean {
  return /^(?:localhost|.*\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(url.hostname)
}
