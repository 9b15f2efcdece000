import { defaultPaths, loadCurve } from 'express-did-auth'
import { setTimeout as pause } from 'node:timers/promises'
import { reasonOf, StartError } from '../../config/startup-error.js'
import {
  painter,
  printable,
  printableJson,
  readArguments,
  readUrl,
  UsageError,
  type CommandLine
} from '../command-line.js'
import { answerChecks } from './answer-checks.js'
import { challengeChecks } from './challenge-checks.js'
import { NotApplicable, type Check } from './check.js'
import { loginChecks } from './login-checks.js'
import { sessionChecks } from './session-checks.js'
import { ServiceUnderTest, type FlowPaths, type ServiceOptions } from './service.js'
import { tokenChecks, type Waiting } from './token-checks.js'

/** The options by which each path is named: `--refresh-token-path`. */
const pathOptions = {
  requestSignup: 'request-signup-path',
  signup: 'signup-path',
  requestAuth: 'request-auth-path',
  auth: 'auth-path',
  refreshToken: 'refresh-token-path',
  logout: 'logout-path'
} as const satisfies Record<keyof FlowPaths, string>

const OPTIONS = {
  protected: { type: 'string' },
  domain: { type: 'string' },
  wait: { type: 'string' },
  'sign-up': { type: 'boolean' },
  json: { type: 'boolean' },
  'request-signup-path': { type: 'string' },
  'signup-path': { type: 'string' },
  'request-auth-path': { type: 'string' },
  'auth-path': { type: 'string' },
  'refresh-token-path': { type: 'string' },
  'logout-path': { type: 'string' }
} as const

/** The route that the auth server has behind its middleware. */
const DEFAULT_PROTECTED_PATH = '/me'
const DEFAULT_WAIT_SECONDS = 5

/** What came of one check. A check that does not apply counts neither way. */
export interface CheckResult {
  id: string
  rule: string
  outcome: 'passed' | 'failed' | 'skipped'
  /** Why it failed or does not apply. */
  detail?: string
}

export interface ConformanceReport {
  passed: number
  /** Of the checks that apply. */
  total: number
  checks: CheckResult[]
}

/**
 * Asks a running service whether it keeps the rules of this protocol. It logs in with wallets made for the occasion, about
 * sixty times, and leaves those sessions behind.
 *
 * @param waiting - how long an access token may be waited for to expire
 * @throws StartError when nothing answers there
 * @see CONTRACT of the wire: the README of the library, "HTTP"
 */
export async function checkConformance(
  options: Omit<ServiceOptions, 'curve'>,
  waiting: Waiting
): Promise<ConformanceReport> {
  const service = new ServiceUnderTest({ ...options, curve: await loadCurve() })
  await learnDomain(service)
  const refused = await refusedLogin(service)
  const checks: CheckResult[] = []
  for (const check of [
    ...challengeChecks,
    ...loginChecks,
    ...tokenChecks(waiting),
    ...sessionChecks,
    ...answerChecks
  ]) {
    checks.push(refused === undefined ? await outcomeOf(check, service) : notAsked(check, refused))
  }
  const applicable = checks.filter(({ outcome }) => outcome !== 'skipped')
  return { passed: applicable.filter(({ outcome }) => outcome === 'passed').length, total: applicable.length, checks }
}

/**
 * `conformance <url>`: runs all checks and prints what came of each.
 *
 * @returns the exit code: 0 all passed, 1 otherwise
 * @throws UsageError; StartError when nothing answers there
 */
export async function runConformance(commandLine: CommandLine): Promise<number> {
  const { args, out } = commandLine
  const { values, positionals } = readArguments(args, OPTIONS, [1, 1])
  const paths = Object.entries(pathOptions).flatMap(([name, option]): [string, string][] => {
    const path = values[option]
    return path === undefined ? [] : [[name, parsePath(option, path)]]
  })
  const report = await checkConformance(
    {
      url: readUrl(positionals[0] ?? ''),
      domain: values.domain,
      protectedPath: parsePath('protected', values.protected ?? DEFAULT_PROTECTED_PATH),
      signsUpFirst: values['sign-up'] === true,
      paths: { ...defaultPaths, ...Object.fromEntries<string>(paths) }
    },
    { maxSeconds: parseSeconds(values.wait), wait: (seconds) => pause(seconds * 1_000) }
  )
  const { passed, total, checks } = report
  if (values.json === true) out(printableJson(report))
  else for (const line of linesOf(report, commandLine)) out(line)
  return passed === total && checks.length > 0 ? 0 : 1
}

/** Why a good login fails. A service that refuses everybody keeps each rule about refusals. */
async function refusedLogin(service: ServiceUnderTest): Promise<string | undefined> {
  if ((await service.challenge('auth', service.newUser().did)) === '') {
    service.challengeForm = 'GET'
    if ((await service.challenge('auth', service.newUser().did)) === '') service.challengeForm = 'POST'
  }
  return service.logIn().then(
    () => undefined,
    (error: unknown) => messageOf(error)
  )
}

function notAsked({ id, rule }: Check, refused: string): CheckResult {
  return { id, rule, outcome: 'failed', detail: `not asked, because a good login fails: ${refused}` }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

async function outcomeOf({ id, rule, run }: Check, service: ServiceUnderTest): Promise<CheckResult> {
  try {
    await run(service)
    return { id, rule, outcome: 'passed' }
  } catch (error) {
    return { id, rule, outcome: error instanceof NotApplicable ? 'skipped' : 'failed', detail: messageOf(error) }
  }
}

/** A service behind a proxy knows its domain better than the address by which it is asked. @throws StartError */
async function learnDomain(service: ServiceUnderTest): Promise<void> {
  const { url, domain, protectedPath } = service.options
  try {
    const answers = [await service.send('GET', protectedPath), await service.post(service.paths.auth, {})]
    const [realm] = answers.flatMap(({ headers }) => realmOf(headers) ?? [])
    if (domain === undefined && realm !== undefined) service.domain = realm
  } catch (error) {
    const cause = error instanceof Error ? (error.cause ?? error) : error
    throw new StartError(`No answer from ${url.href}: ${reasonOf(cause)}`, { cause: error })
  }
}

/** The host of the realm, or the realm where it is no URL: both name the login domain. */
function realmOf(headers: Headers): string | undefined {
  const realm = /realm="([^"]+)"/.exec(headers.get('www-authenticate') ?? '')?.[1]
  return realm !== undefined && /^https?:/i.test(realm) && URL.canParse(realm) ? new URL(realm).host : realm
}

function linesOf({ passed, total, checks }: ConformanceReport, commandLine: CommandLine): string[] {
  const paint = painter(commandLine)
  const lines = checks.flatMap(({ id, rule, outcome, detail = '' }) => {
    if (outcome === 'passed') return [`${paint('green', 'pass')}  ${rule}`]
    if (outcome === 'skipped') return [paint('dim', `skip  ${rule} (${printable(detail)})`)]
    return [`${paint('red', 'FAIL')}  ${rule}`, `      ${id}: ${printable(detail)}`]
  })
  const isFull = passed === total
  return [...lines, '', paint(isFull ? 'green' : 'red', `${passed} of ${total} rules hold.`)]
}

function parsePath(option: string, path: string): string {
  if (/^\/[\x21-\x7e]*$/.test(path)) return path
  throw new UsageError(`--${option}: give a path that begins with /`)
}

function parseSeconds(text: string | undefined): number {
  if (text === undefined) return DEFAULT_WAIT_SECONDS
  if (/^\d{1,4}$/.test(text)) return Number(text)
  throw new UsageError('--wait: give a number of seconds, 0 to 9999')
}
