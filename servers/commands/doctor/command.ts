import { variableNames } from '../../config/env-schema.js'
import { serverPorts, type ServerName } from '../../config/read-env.js'
import { painter, printableJson, readArguments, readUrl, UsageError, type CommandLine } from '../command-line.js'
import { checkPlan, readPlans, variableChecks } from './environment.js'
import { examine, linesOf, type Finding } from './finding.js'
import { checkNetwork, engineChecks, type NetworkSurroundings } from './network.js'
import { checkService } from './running-service.js'

const OPTIONS = {
  origin: { type: 'string', multiple: true },
  server: { type: 'string' },
  json: { type: 'boolean' }
} as const

/**
 * `doctor`: finds what is wrong with the environment. `doctor <url>`: finds what is wrong with a running service, with
 * what the environment says about it.
 *
 * @returns the exit code: 1 when something has to be changed, else 0
 * @throws UsageError
 */
export async function runDoctor(commandLine: CommandLine, surroundings: NetworkSurroundings = {}): Promise<number> {
  const { args, env, out } = commandLine
  const { values, positionals } = readArguments(args, OPTIONS, [0, 1])
  const [text] = positionals
  const found =
    text === undefined
      ? await examineEnvironment(env, parseServer(values.server), surroundings)
      : await examineService(readUrl(text), env, values.origin ?? [])
  // Several servers of one environment share most of it.
  const findings = [...new Map(found.map((one) => [JSON.stringify(one), one])).values()]
  if (values.json === true) out(printableJson({ findings }))
  else for (const line of linesOf(findings, painter(commandLine))) out(line)
  return findings.some(({ level }) => level === 'change') ? 1 : 0
}

/** Without a name: the servers of `all`, unless the environment is that of one server. */
async function examineEnvironment(
  env: CommandLine['env'],
  server: ServerName | 'all' | undefined,
  surroundings: NetworkSurroundings
): Promise<Finding[]> {
  const isOfOne = (env.PORT ?? '') !== '' || (env.SERVICE_URL ?? '') !== ''
  const chosen = server ?? (isOfOne ? 'auth' : 'all')
  const names: ServerName[] = chosen === 'all' ? ['auth', 'relay', 'vault'] : [chosen]
  const reading = readPlans(env, names, chosen === 'all')
  const { plans } = reading
  const findings = await Promise.all([
    examine(variableChecks, reading),
    ...plans.map(checkPlan),
    ...plans.slice(0, 1).map((plan) => examine(engineChecks, plan.env)),
    ...plans.map((plan) => checkNetwork(plan.env, surroundings))
  ])
  return findings.flat()
}

async function examineService(url: URL, env: CommandLine['env'], origins: readonly string[]): Promise<Finding[]> {
  for (const origin of origins)
    if (readUrl(origin).origin !== origin) throw new UsageError(`${origin} is not an origin`)
  const isGiven = variableNames.some((name) => (env[name] ?? '') !== '')
  const [plan] = isGiven ? readPlans(env, ['auth'], false).plans : []
  if (plan === undefined) return checkService({ url, origins })
  const { TRUSTED_ORIGINS, CORS_ORIGINS, TRUST_PROXY, SERVICE_URL } = plan.env
  const all = new Set([...origins, ...TRUSTED_ORIGINS, ...CORS_ORIGINS])
  // The environment of another service says nothing about the proxies of this one.
  const isItsOwn = SERVICE_URL !== undefined && URL.canParse(SERVICE_URL) && new URL(SERVICE_URL).origin === url.origin
  return checkService({ url, origins: [...all], ...(isItsOwn && { trustProxy: TRUST_PROXY }) })
}

function parseServer(text: string | undefined): ServerName | 'all' | undefined {
  const known = [...(Object.keys(serverPorts) as ServerName[]), 'all' as const]
  const found = known.find((name) => name === text)
  if (text !== undefined && found === undefined) throw new UsageError(`--server: give ${known.join(', ')}`)
  return found
}
