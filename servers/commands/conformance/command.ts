import { loadCurve } from 'express-did-auth'
import { parseHttpUrl } from 'express-did-auth/server-kit'
import { setTimeout as pause } from 'node:timers/promises'
import { describeReason, StartError } from '../../config/startup-error.js'
import { createPainter, toPrintable, toPrintableJson, readArguments, readUrl, UsageError } from '../command-line.js'
import type { CommandLine } from '../command-line.js'
import { flowPaths, readRealm, ServiceUnderTest, type FlowPaths, type ServiceOptions } from '../service-under-test.js'
import { answerChecks } from './answer-checks.js'
import { loginChecks } from './login-checks.js'
import { assertThat, NotApplicable, rules, siweRules, type Ask, type CheckResult, type RuleId } from './rules.js'
import { sessionChecks } from './session-checks.js'
import { siweChecks } from './siwe-checks.js'

const asks: Readonly<Record<RuleId, Ask>> = { ...loginChecks, ...sessionChecks, ...answerChecks, ...siweChecks }

/** The option by which a path is named: `refresh-token-path`. */
const toOptionName = (name: string): string => `${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}-path`

const OPTIONS = {
  protected: { type: 'string' },
  domain: { type: 'string' },
  wait: { type: 'string' },
  'sign-up': { type: 'boolean' },
  json: { type: 'boolean' },
  siwe: { type: 'boolean' },
  ...Object.fromEntries(Object.keys(flowPaths).map((name) => [toOptionName(name), { type: 'string' } as const]))
} as const

/** The route that the auth server has behind its middleware. */
const DEFAULT_PROTECTED_PATH = '/me'
const DEFAULT_WAIT = '5'

/** `total`: of the checks that apply. */
export type ConformanceReport = { passed: number; total: number; checks: CheckResult[] }
type CheckOptions = Omit<ServiceOptions, 'curve'>

/**
 * Asks a running service whether it keeps the rules of this protocol. It logs in with new wallets, about sixty times,
 * and leaves those sessions behind.
 *
 * @param isSiwe - checks any backend of EIP-4361 for the rules of EIP-4361 only
 * @throws StartError when nothing answers there; with `--siwe` a valid login then fails instead
 * @see CONTRACT of the wire: the README of the library, "HTTP"
 */
export async function checkConformance(options: CheckOptions, isSiwe = false): Promise<ConformanceReport> {
  const service = new ServiceUnderTest({ ...options, curve: await loadCurve() })
  if (!isSiwe) await learnDomain(service)
  const refused = await explainRefusedLogin(service, isSiwe)
  const checks: CheckResult[] = []
  const hasSiwe = isSiwe || (await service.siweNonce()) !== undefined
  const asked = { ...(!isSiwe && rules), ...(hasSiwe && siweRules) }
  for (const [id, rule] of Object.entries(asked)) {
    try {
      assertThat(refused === undefined, `not asked, because a good login fails: ${refused ?? ''}`)
      await asks[id as RuleId](service)
      checks.push({ id, rule, outcome: 'passed' })
    } catch (error) {
      const outcome = error instanceof NotApplicable ? 'skipped' : 'failed'
      checks.push({ id, rule, outcome, detail: describeReason(error) })
    }
  }
  const passed = checks.filter(({ outcome }) => outcome === 'passed').length
  return { passed, total: checks.filter(({ outcome }) => outcome !== 'skipped').length, checks }
}

/** Runs and prints all checks. @returns 0: all passed; else 1 @throws UsageError; StartError when nothing answers */
export async function runConformance(commandLine: CommandLine): Promise<number> {
  const { args, out } = commandLine
  const { values, positionals } = readArguments(args, OPTIONS, [1, 1])
  const given: Readonly<Record<string, string | boolean | undefined>> = values
  const isSiwe = values.siwe === true
  const paths = Object.entries(flowPaths).flatMap(([name, path]) => {
    const option = toOptionName(name)
    // The URL is the path above /nonce and /verify with `--siwe`.
    const chosen = given[option] ?? (isSiwe ? path.replace('/siwe', '') : undefined)
    return chosen === undefined ? [] : [[name, parsePath(option, String(chosen))]]
  })
  const options = {
    url: readUrl(positionals[0] ?? ''),
    domain: values.domain,
    protectedPath: parsePath('protected', values.protected ?? DEFAULT_PROTECTED_PATH),
    signsUpFirst: values['sign-up'] === true,
    paths: Object.fromEntries(paths) as Partial<FlowPaths>,
    maxWaitSeconds: parseSeconds(values.wait ?? DEFAULT_WAIT),
    wait: (seconds: number): Promise<void> => pause(seconds * 1_000)
  }
  const report = await checkConformance(options, isSiwe)
  if (values.json === true) out(toPrintableJson(report))
  else for (const line of formatReport(report, commandLine)) out(line)
  return report.passed === report.total ? 0 : 1
}

/** A service behind a proxy knows its domain better than its address does. @throws StartError */
async function learnDomain(service: ServiceUnderTest): Promise<void> {
  const { url, domain, protectedPath } = service.options
  try {
    await service.discover()
    const answers = [await service.send('GET', protectedPath), await service.post(service.paths.auth, {})]
    const [realm] = answers.flatMap((answer) => readRealm(answer) ?? [])
    if (domain !== undefined || realm === undefined) return
    // The host of the realm, or the realm where it is no URL: both name the login domain.
    service.domain = parseHttpUrl(realm)?.host ?? realm
  } catch (error) {
    throw new StartError(`No answer from ${url.href}: ${describeReason(error)}`, { cause: error })
  }
}

/** Why a good login fails. A service that refuses everybody keeps each rule about refusals. */
async function explainRefusedLogin(service: ServiceUnderTest, isSiwe: boolean): Promise<string | undefined> {
  if (isSiwe) return siweChecks['siwe-login'](service).then(() => undefined, describeReason)
  if ((await service.challenge()) === '') {
    service.challengeForm = 'GET'
    if ((await service.challenge()) === '') service.challengeForm = 'POST'
  }
  return service.logIn().then(() => undefined, describeReason)
}

function formatReport({ passed, total, checks }: ConformanceReport, commandLine: CommandLine): string[] {
  const paint = createPainter(commandLine)
  const lines = checks.flatMap(({ id, rule, outcome, detail = '' }) => {
    if (outcome === 'passed') return [`${paint('green', 'pass')}  ${rule}`]
    if (outcome === 'skipped') return [paint('dim', `skip  ${rule} (${toPrintable(detail)})`)]
    return [`${paint('red', 'FAIL')}  ${rule}`, `      ${id}: ${toPrintable(detail)}`]
  })
  return [...lines, '', paint(passed === total ? 'green' : 'red', `${passed} of ${total} rules hold.`)]
}

function parsePath(option: string, path: string): string {
  if (/^\/[\x21-\x7e]*$/.test(path)) return path
  throw new UsageError(`--${option}: give a path that begins with /`)
}

function parseSeconds(text: string): number {
  if (/^\d{1,4}$/.test(text)) return Number(text)
  throw new UsageError('--wait: give a number of seconds, 0 to 9999')
}
