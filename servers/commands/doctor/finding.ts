import { reasonOfCause } from '../../config/startup-error.js'
import { printable, type Paint } from '../command-line.js'

/** Why each finding matters, by stable ids. What follows a slash distinguishes two reasons of one id. */
const reasons = {
  'unused-variable': 'Under `all`, the name of each variable begins with its server; a single server has it without.',
  'misspelt-variable': 'No server reads it, so the setting keeps its default.',
  'invalid-variable': 'The server does not start with it.',
  'weak-secret': 'An attacker who guesses it computes every challenge.',
  'weak-key': 'An attacker who has it issues tokens for every user.',
  'one-secret': 'An attacker who learns one of the two has both.',
  'data-folder': 'The server stores sessions and content there.',
  'secret-file': 'Other users of this machine can read it.',
  'ipfs-package': 'Relay and vault do not start without it.',
  'service-url': 'It is the audience of all tokens, and its host is the domain that users see and sign.',
  'trust-proxy': 'All users share the address of the proxy, and with it one budget of requests.',
  'trust-proxy/all': 'Every client chooses its own address in X-Forwarded-For, and escapes the limits.',
  'demo-page': 'Every visitor of the root sees the page for trying out the servers.',
  http: 'Tokens can be read on the way, and used by others.',
  'cookies-over-http': 'The cookies are Secure: browsers do not keep them over http, and no login lasts.',
  'same-site': 'The cookies are SameSite=Strict: no browser sends them with requests of its pages.',
  'trusted-origins': 'Its logins, refreshes and writes are 403, because a foreign page could make them as well.',
  'cors-origins': 'Its pages may send requests, but their scripts cannot read the answers.',
  'login-domains':
    'A client there gets 401 if its users sign "Login to" this host; ours signs the host of the service.',
  'login-domains/many': 'Each accepted domain costs CPU time for every bad signature: the server does not start.',
  database: 'No user can log in without it: the answer is 503, or the server does not start.',
  redis: 'No user can log in without it: the answer is 503, or the server does not start.',
  'rpc-unavailable': 'Credentials of issuers that are looked up there are answered with 503. Logins do not need it.',
  'rpc-chain': 'Issuers of credentials would be looked up on another chain than their DIDs name.',
  'ipfs-open': 'Every client that reaches it controls the node: reads its keys, and removes its pins.',
  unavailable: 'Users cannot reach it either, or only from elsewhere.',
  'no-challenge': 'No user can log in there.',
  clock: 'Tokens would be refused as not yet good or as expired by other services and instances.',
  'not-ready': 'The service reports it itself. If /ready is 503, it does not work at all.',
  'siwe-nonce': 'A cache in front gives one nonce to several users: the first user who logs in uses it up for all.',
  'siwe-domain': 'Wallet modals there sign messages (EIP-4361) that name this host, which are answered with 401.',
  cors: 'The browser blocks its scripts: logins, or safe repeats of a refresh, fail.'
}

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

/** What a check found wrong. */
export type Fault = Pick<Finding, 'level' | 'what' | 'change'> | undefined

/** Questions about a subject, by the reasons why their answers matter. */
export type Checks<Subject> = Partial<
  Record<keyof typeof reasons, (subject: Subject) => Fault | Fault[] | Promise<Fault | Fault[]>>
>

/** Has to be changed, where `isWrong`. */
export const change = (isWrong: boolean, what: string, line: string): Fault =>
  isWrong ? { level: 'change', what, change: line } : undefined

/** May be intended. */
export const note = (isWrong: boolean, what: string, line: string): Fault =>
  isWrong ? { level: 'note', what, change: line } : undefined

/** Asks all questions about a subject at once. */
export async function examine<Subject>(checks: Checks<Subject>, subject: Subject): Promise<Finding[]> {
  const asked = Object.entries(checks).map(async ([key, ask]): Promise<Finding[]> => {
    const [id, why] = [key.replace(/\/.*/, ''), reasons[key as keyof typeof reasons]]
    try {
      return [await ask(subject)].flat().flatMap((fault) => (fault === undefined ? [] : { id, why, ...fault }))
    } catch (error) {
      const what = `A request was not answered: ${reasonOfCause(error)}`
      const why = 'It answered before. Users may see this too. The checks that needed the answer are left out.'
      return [{ id: 'unanswered', level: 'change', what, why, change: 'its log, or that of the proxy, says why' }]
    }
  })
  return (await Promise.all(asked)).flat()
}

/** Findings as lines for people: what has to be changed comes first. */
export function linesOf(findings: readonly Finding[], paint: Paint): string[] {
  const count = findings.filter(({ level }) => level === 'change').length
  const sorted = [...findings].sort((one, other) => one.level.localeCompare(other.level))
  const lines = sorted.flatMap(({ id, level, what, why, change }) => [
    `${level === 'change' ? paint('red', 'CHANGE') : paint('yellow', 'note  ')}  ${printable(what)} ${paint('dim', `(${id})`)}`,
    `        ${why}`,
    `        > ${change}`,
    ''
  ])
  if (count > 0) return [...lines, paint('red', `${count} to change.`)]
  return [...lines, paint('green', findings.length === 0 ? 'Nothing found.' : 'Nothing has to be changed.')]
}
