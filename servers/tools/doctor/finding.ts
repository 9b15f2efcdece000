import { describeReason } from '../../config/startup-error.js'

/** Reasons why findings matter, by stable id. A part after a slash distinguishes two reasons with the same id. */
const reasons = {
  'misspelt-variable': 'No server reads this variable, so the setting keeps its default.',
  'invalid-variable': 'The server does not start with this value.',
  'weak-secret': 'An attacker who guesses the secret can forge challenges.',
  'weak-key': 'An attacker who has the key can issue tokens for every user.',
  'one-secret': 'An attacker who learns one of the two secrets has both.',
  'service-url': 'This URL is the audience of all tokens, and its host is the domain that users see and sign.',
  'trust-proxy': 'The server sees only the address of the proxy, so all users share one rate limit.',
  'trust-proxy/all':
    'Clients can send any address in X-Forwarded-For. A client that changes this address evades the rate limits.',
  'machine-dids': 'Anyone can create a DID. A service that accepts the tokens has to decide on DIDs itself.',
  'machine-dids/unused': 'No machine can log in, and the list does not affect users.',
  'oauth-metadata': 'Programs that only know the URL of the service cannot find its token endpoint.',
  'demo-page': 'Every visitor of the root path sees the page for trying out the servers.',
  http: 'Anyone on the network path can read the tokens and use them.',
  'cookies-over-http': 'The cookies are Secure, so browsers do not store them over http. No login lasts.',
  'same-site': 'The cookies are SameSite=Strict, so browsers do not send them with requests from pages of this site.',
  'trusted-origins': 'The server refuses its logins, refreshes and writes with 403, as those of any foreign page.',
  'cors-origins': 'Its pages can send requests, but the browser does not let their scripts read the responses.',
  'login-domains':
    'A login gets 401 if the user signs "Login to" this host. The client of this library signs the service\'s host.',
  database: 'Without the database no user can log in: the server answers 503, or does not start.',
  redis: 'Without Redis no user can log in: the server answers 503, or does not start.',
  'data-dir': 'The server cannot store data. It answers logins and writes with 503 or 507.',
  'disk-full': 'Relay and vault refuse writes with 507. When the disk is full, no user can log in.',
  'service-did':
    'Services that look up the key of this DID refuse the tokens of this service, unless PRIVATE_KEY now controls the DID.',
  issuer: 'The server answers tokens of that auth server with 503, so users need a second login.',
  'issuer-list': 'This server learns of a logout at that auth server only by the list.',
  'not-ready': 'A load balancer that checks /ready stops sending requests, and requests that need this part fail.',
  'not-ready/part': 'The server works without it. Only requests that need it fail.',
  'rpc-unavailable':
    'Credentials whose issuers have to be looked up on this node are answered with 503. Logins do not need the node.',
  'rpc-chain': 'Issuers of credentials would be looked up on a chain that is not the chain of their DIDs.',
  'ipfs-open': 'Every client that reaches the port controls the node: it can read keys and remove pins.',
  'encoded-slash': 'A write under a key with a slash would change another key. VaultClient then gets 400 ERR_KEY.',
  unavailable: 'Users may not reach the service either.',
  unanswered:
    'Earlier requests were answered. Users may see this failure too. Checks that need the response are skipped.',
  'no-challenge': 'No user can log in at this URL.',
  clock: 'Other services and instances would refuse tokens as not yet valid or as expired.',
  'siwe-nonce': 'A cache returns the same nonce to several users. The first login uses it up, and the others fail.',
  'siwe-domain': 'Wallet dialogs on this page sign EIP-4361 messages that name its host. The service answers 401.',
  cors: 'The browser blocks requests of its scripts, so logins or safe retries of a refresh fail.'
}

/** Problem that a check reports to the operator. */
export interface Finding {
  /** Stable id, for scripts. */
  id: string
  /** `change`: the operator has to change something. `note`: the setting may be intended. */
  level: 'change' | 'note'
  /** The problem, in a sentence without a full stop. */
  what: string
  /** The reason why the problem matters. */
  why: string
  /** The remedy: a line of the environment or of a configuration, or a command. */
  change: string
}

/** Results of checks. False: the check found no problem. */
export type Findings = readonly (Finding | false)[]

const createFindingMaker =
  (level: Finding['level']) =>
  (key: keyof typeof reasons, problem: string, remedy: string): Finding => {
    return { id: key.replace(/\/.*/, ''), level, what: problem, why: reasons[key], change: remedy }
  }

/** Creates a finding that requires a change. */
export const change = createFindingMaker('change')

/** Creates a finding about a setting that may be intended. */
export const note = createFindingMaker('note')

/** Runs checks in parallel. A check whose request gets no response becomes a finding. */
export async function runChecks(...checks: (() => Promise<Findings>)[]): Promise<Findings> {
  const results = checks.map((check) =>
    check().catch((error: unknown) => [
      change(
        'unanswered',
        `A request was not answered: ${describeReason(error)}`,
        'see the log of the service or of the proxy for the reason'
      )
    ])
  )
  return (await Promise.all(results)).flat()
}
