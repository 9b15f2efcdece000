import { loadCurve } from 'express-did-auth'
import { parseHttpUrl } from 'express-did-auth/server-kit'
import { setTimeout as pause } from 'node:timers/promises'
import { describeReason, StartError } from '../../config/startup-error.js'
import { printReport, readArguments, readOrigins, readUrl, toPrintable, UsageError } from '../command-line.js'
import type { CommandLine, Paint } from '../command-line.js'
import { flowPaths, readRealm, ServiceUnderTest, type FlowPaths, type ServiceOptions } from '../service-under-test.js'
import { answerChecks } from './answer-checks.js'
import { acceptsDeviceProofs, deviceChecks } from './device-checks.js'
import { endedChecks, hasEndedSessions } from './ended-checks.js'
import { loginChecks } from './login-checks.js'
import { acceptsMachines, machineChecks } from './machine-checks.js'
import { pageChecks } from './page-checks.js'
import {
  assertThat,
  deviceRules,
  endedRules,
  machineRules,
  NotApplicable,
  pageRules,
  rules,
  siweRules
} from './rules.js'
import type { Check, CheckResult, PageRuleId, RuleId } from './rules.js'
import { sessionChecks } from './session-checks.js'
import { siweChecks } from './siwe-checks.js'

const checks: Readonly<Record<RuleId, Check>> = {
  ...loginChecks,
  ...sessionChecks,
  ...answerChecks,
  ...endedChecks,
  ...deviceChecks,
  ...machineChecks,
  ...siweChecks
}

/** Returns the command-line option for a path, such as `refresh-token-path`. */
const toOptionName = (name: string): string => `${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}-path`

const OPTIONS = {
  protected: { type: 'string' },
  domain: { type: 'string' },
  wait: { type: 'string' },
  origin: { type: 'string', multiple: true },
  'sign-up': { type: 'boolean' },
  json: { type: 'boolean' },
  siwe: { type: 'boolean' },
  ...Object.fromEntries(Object.keys(flowPaths).map((name) => [toOptionName(name), { type: 'string' } as const]))
} as const

/** The route that the auth server protects with its middleware. */
const DEFAULT_PROTECTED_PATH = '/me'
const DEFAULT_WAIT = '5'

/** Results of all checks. `total` is the number of checks that apply. */
export type ConformanceReport = { passed: number; total: number; checks: CheckResult[] }
type CheckOptions = Omit<ServiceOptions, 'curve'> & { origins?: readonly string[] }

/**
 * Checks whether a running service follows the rules of this protocol. It logs in about sixty times with new wallets
 * and does not log out again.
 *
 * @param isSiwe - checks any backend of EIP-4361 for the rules of EIP-4361 only
 * @throws StartError if the service is unavailable; with `isSiwe`, the checks fail instead
 * @see README of the library, "HTTP"
 */
export async function checkConformance(options: CheckOptions, isSiwe = false): Promise<ConformanceReport> {
  const service = new ServiceUnderTest({ ...options, curve: await loadCurve() })
  if (!isSiwe) await learnDomain(service)
  const loginFailure = await findLoginFailure(service, isSiwe)
  const results: CheckResult[] = []
  const run = async (id: string, rule: string, check: () => Promise<unknown>): Promise<void> => {
    try {
      assertThat(loginFailure === undefined, `not checked, because a valid login fails: ${loginFailure ?? ''}`)
      await check()
      results.push({ id, rule, outcome: 'passed' })
    } catch (error) {
      const outcome = error instanceof NotApplicable ? 'skipped' : 'failed'
      results.push({ id, rule, outcome, detail: describeReason(error) })
    }
  }
  const hasSiwe = isSiwe || (await service.requestSiweNonce()) !== undefined
  const optionalRules = {
    ...(hasEndedSessions(service) && endedRules),
    ...(acceptsDeviceProofs(service) && deviceRules),
    ...(acceptsMachines(service) && machineRules)
  }
  const flowRules = isSiwe ? {} : { ...rules, ...optionalRules }
  const applicableRules = { ...flowRules, ...(hasSiwe && siweRules) }
  for (const [id, rule] of Object.entries(applicableRules)) await run(id, rule, () => checks[id as RuleId](service))
  for (const origin of isSiwe ? [] : (options.origins ?? [])) {
    for (const [id, rule] of Object.entries(pageRules)) {
      await run(id, `${origin}: ${rule}`, () => pageChecks[id as PageRuleId](service, origin))
    }
  }
  const passed = results.filter(({ outcome }) => outcome === 'passed').length
  return { passed, total: results.filter(({ outcome }) => outcome !== 'skipped').length, checks: results }
}

/** Runs and prints all checks. @returns 0 if all passed, otherwise 1 @throws UsageError; as {@link checkConformance} */
export async function runConformance(commandLine: CommandLine): Promise<number> {
  const { values, positionals } = readArguments(commandLine.args, OPTIONS, [1, 1])
  const options: Readonly<Record<string, (typeof values)[keyof typeof values]>> = values
  const isSiwe = values.siwe === true
  const paths = Object.entries(flowPaths).flatMap(([name, path]) => {
    const option = toOptionName(name)
    // The URL is the parent path of /nonce and /verify if `--siwe` is set.
    const chosen = options[option] ?? (isSiwe ? path.replace('/siwe', '') : undefined)
    return chosen === undefined ? [] : [[name, parsePath(option, String(chosen))]]
  })
  const serviceOptions = {
    url: readUrl(positionals[0] ?? ''),
    domain: values.domain,
    origins: readOrigins(values.origin),
    protectedPath: parsePath('protected', values.protected ?? DEFAULT_PROTECTED_PATH),
    signsUpFirst: values['sign-up'] === true,
    paths: Object.fromEntries(paths) as Partial<FlowPaths>,
    maxWaitSeconds: parseSeconds(values.wait ?? DEFAULT_WAIT),
    wait: (seconds: number): Promise<void> => pause(seconds * 1_000)
  }
  const report = await checkConformance(serviceOptions, isSiwe)
  printReport(commandLine, report, values.json === true, formatReport)
  return report.passed === report.total ? 0 : 1
}

/** Learns paths and login domain from the service. Its address may be that of a proxy. @throws StartError */
async function learnDomain(service: ServiceUnderTest): Promise<void> {
  const { url, domain, protectedPath } = service.options
  try {
    await service.discover()
    const answers = [await service.send('GET', protectedPath), await service.post(service.paths.auth, {})]
    const [realm] = answers.flatMap((exchange) => readRealm(exchange) ?? [])
    if (domain !== undefined || realm === undefined) return
    // The login domain is the host of the realm, or the realm itself if it is not a URL.
    service.domain = parseHttpUrl(realm)?.host ?? realm
  } catch (error) {
    throw new StartError(`${url.href} does not answer: ${describeReason(error)}`, { cause: error })
  }
}

/** Finds the reason why a valid login fails. A service that refuses every login would pass each check of a refusal. */
async function findLoginFailure(service: ServiceUnderTest, isSiwe: boolean): Promise<string | undefined> {
  if (isSiwe) return siweChecks['siwe-login'](service).then(() => undefined, describeReason)
  if ((await service.challenge()) === '') {
    service.challengeForm = 'GET'
    if ((await service.challenge()) === '') service.challengeForm = 'POST'
  }
  // The other checks open sessions without a device, so they need a service that accepts these.
  const hint = acceptsDeviceProofs(service) ? '; if it requires device proofs, check it with "accepted"' : ''
  return service.logIn().then(
    () => undefined,
    (error: unknown) => describeReason(error) + hint
  )
}

function formatReport({ passed, total, checks }: ConformanceReport, paint: Paint): string[] {
  const lines = checks.flatMap(({ id, rule, outcome, detail = '' }) => {
    if (outcome === 'passed') return [`${paint('green', 'pass')}  ${rule}`]
    if (outcome === 'skipped') return [paint('dim', `skip  ${rule} (${toPrintable(detail)})`)]
    return [`${paint('red', 'FAIL')}  ${rule}`, `      ${id}: ${toPrintable(detail)}`]
  })
  return [...lines, '', paint(passed === total ? 'green' : 'red', `${passed} of ${total} rules hold.`)]
}

function parsePath(option: string, path: string): string {
  if (/^\/[\x21-\x7e]*$/.test(path)) return path
  throw new UsageError(`--${option} must be a path that begins with /`)
}

function parseSeconds(text: string): number {
  if (/^\d{1,4}$/.test(text)) return Number(text)
  throw new UsageError('--wait must be a number of seconds from 0 to 9999')
}
