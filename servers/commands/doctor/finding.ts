import { describeReason } from '../../config/startup-error.js'

/** Reasons why findings matter, by stable id. The part after a slash distinguishes two reasons of one id. */
const reasons = {
  'misspelt-variable': 'No server reads it, so the setting keeps its default.',
  'invalid-variable': 'The server does not start with it.',
  'weak-secret': 'An attacker who guesses it computes every challenge.',
  'weak-key': 'An attacker who has it issues tokens for every user.',
  'one-secret': 'An attacker who learns one of the two has both.',
  'service-url': 'It is the audience of all tokens, and its host is the domain that users see and sign.',
  'trust-proxy': 'All users share the address of the proxy, and with it one budget of requests.',
  'trust-proxy/all':
    "The first address in X-Forwarded-For is the client's own word: with others it escapes the limits.",
  'demo-page': 'Every visitor of the root sees the page for trying out the servers.',
  http: 'Tokens can be read on the way, and used by others.',
  'cookies-over-http': 'The cookies are Secure: browsers do not keep them over http, and no login lasts.',
  'same-site': 'The cookies are SameSite=Strict: no browser sends them with requests of its pages.',
  'trusted-origins': 'Its logins, refreshes and writes are 403, because a foreign page could make them as well.',
  'cors-origins': 'Its pages may send requests, but their scripts cannot read the answers.',
  'login-domains': 'A client there gets 401 if users sign "Login to" this host; ours signs the host of the service.',
  database: 'No user can log in without it: the answer is 503, or the server does not start.',
  redis: 'No user can log in without it: the answer is 503, or the server does not start.',
  'data-dir': 'Nothing can be stored there: logins and writes are answered with 503 or 507.',
  'disk-full': 'Relay and vault refuse writes with 507. Once it is full, no user can log in.',
  'service-did': 'Services that look up the key of this DID refuse our tokens, unless its owner is now our key.',
  issuer: 'Tokens of that auth server are answered with 503 here: users need a second login.',
  'not-ready': 'A balancer that asks /ready sends no requests there, and those that need it fail.',
  'not-ready/part': 'The server works without it, except for the requests that need it.',
  'rpc-unavailable': 'Credentials of issuers that are looked up there are answered with 503. Logins do not need it.',
  'rpc-chain': 'Issuers of credentials would be looked up on another chain than their DIDs name.',
  'ipfs-open': 'Every client that reaches it controls the node: reads its keys, and removes its pins.',
  unavailable: 'Users cannot reach it either, or only from elsewhere.',
  unanswered: 'It answered before. Users may see this too. The checks that needed the answer are left out.',
  'no-challenge': 'No user can log in there.',
  clock: 'Tokens would be refused as not yet good or as expired by other services and instances.',
  'siwe-nonce': 'A cache in front gives one nonce to several users: the first user who logs in uses it up for all.',
  'siwe-domain': 'Wallet modals there sign messages (EIP-4361) that name this host, which are answered with 401.',
  cors: 'The browser blocks its scripts: logins, or safe repeats of a refresh, fail.'
}

/** Result of a check that the operator should know. */
export interface Finding {
  /** Stable id, for scripts. */
  id: string
  /** `change`: has to be changed. `note`: may be as intended. */
  level: 'change' | 'note'
  what: string
  why: string
  /** The line to change: of the environment, of a configuration, or a command. */
  change: string
}

/** Results of checks. False stands for a check that found nothing. */
export type Found = readonly (Finding | false)[]

const createFindingMaker =
  (level: Finding['level']) =>
  (key: keyof typeof reasons, what: string, line: string): Finding => {
    return { id: key.replace(/\/.*/, ''), level, what, why: reasons[key], change: line }
  }

/** States what has to be changed, with the line that changes it. */
export const change = createFindingMaker('change')

/** States what may be intended. */
export const note = createFindingMaker('note')

/** Runs checks in parallel. A check without an answer is a finding of its own. */
export async function askAll(...questions: (() => Promise<Found>)[]): Promise<Found> {
  const answers = questions.map((ask) =>
    ask().catch((error: unknown) => [
      change(
        'unanswered',
        `A request was not answered: ${describeReason(error)}`,
        'its log, or that of the proxy, says why'
      )
    ])
  )
  return (await Promise.all(answers)).flat()
}
