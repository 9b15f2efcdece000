import { readValidEnv, findMisspellings, serverPorts, type ServerName } from '../../config/read-env.js'
import { printReport, readArguments, readOrigins, readUrl, toPrintable, UsageError } from '../command-line.js'
import type { CommandLine, Paint } from '../command-line.js'
import { checkDependencies, type DependencyOptions } from './dependencies.js'
import { checkEnv } from './environment.js'
import { change, type Finding, type Findings } from './finding.js'
import { checkService } from './running-service.js'

const OPTIONS = {
  origin: { type: 'string', multiple: true },
  server: { type: 'string' },
  json: { type: 'boolean' }
} as const

type Env = CommandLine['env']
/** Parts of the machine and the network that tests replace. */
export interface DoctorOptions extends DependencyOptions {
  /** Time limit for all requests to a service. Default 10 s. */
  maxMilliseconds?: number | undefined
}
type Server = ServerName | 'all' | undefined

/**
 * Runs `doctor`, which finds problems of the environment, or `doctor <url>`, which finds problems of a running service.
 *
 * @returns the exit code: 1 if something has to be changed, otherwise 0 @throws UsageError
 */
export async function runDoctor(commandLine: CommandLine, options: DoctorOptions = {}): Promise<number> {
  const { args, env } = commandLine
  const { values, positionals } = readArguments(args, OPTIONS, [0, 1])
  const [url] = positionals
  const results =
    url === undefined
      ? await examineEnvironment(env, parseServer(values.server), options)
      : await checkService(readUrl(url), env, readOrigins(values.origin), options.maxMilliseconds)
  // The servers of an environment share most variables, and so most findings.
  const distinct = new Map(
    results.flatMap((finding) => (finding === false ? [] : [[JSON.stringify(finding), finding] as const]))
  )
  const findings = [...distinct.values()]
  printReport(commandLine, { findings }, values.json === true, formatFindings)
  return findings.some(({ level }) => level === 'change') ? 1 : 0
}

/** Checks the environment of a server. Default: auth if `PORT` or `SERVICE_URL` is set, otherwise all servers. */
async function examineEnvironment(env: Env, server: Server, options: DoctorOptions): Promise<Findings> {
  const isSingleServer = (env.PORT ?? '') !== '' || (env.SERVICE_URL ?? '') !== ''
  const chosen = server ?? (isSingleServer ? 'auth' : 'all')
  const names: ServerName[] = chosen === 'all' ? ['auth', 'relay', 'vault'] : [chosen]
  const readings = names.map((name) => readValidEnv(env, name, chosen === 'all'))
  const envs = readings.map((reading) => reading.env)
  return [
    ...findMisspellings(env).map(({ variable, suggestion }) =>
      change('misspelt-variable', `${variable} is not a variable of the servers`, `${suggestion}=…`)
    ),
    ...readings.flatMap(({ problems }) => problems.map(toFinding)),
    ...envs.flatMap(checkEnv),
    ...(await checkDependencies(envs, options))
  ]
}

/** Converts a problem of {@link readValidEnv}, such as `NAME: received "x"; remedy`, to a finding. */
function toFinding(problem: string): Finding {
  const [variable = '', received = ''] = problem.split(/: (.*)/s)
  const [, remedy = received] = received.split(/; (.*)/s)
  return change('invalid-variable', problem, `${variable}=… (${remedy})`)
}

function parseServer(text: string | undefined): Server {
  const names = [...(Object.keys(serverPorts) as ServerName[]), 'all' as const]
  const server = names.find((name) => name === text)
  if (text !== undefined && server === undefined) throw new UsageError(`--server must be one of ${names.join(', ')}`)
  return server
}

/** Formats findings as lines. Findings that require a change come first. */
function formatFindings({ findings }: { findings: readonly Finding[] }, paint: Paint): string[] {
  const count = findings.filter(({ level }) => level === 'change').length
  const sorted = [...findings].sort((a, b) => a.level.localeCompare(b.level))
  const lines = sorted.flatMap(({ id, level, what, why, change }) => [
    `${level === 'change' ? paint('red', 'CHANGE') : paint('yellow', 'note  ')}  ${toPrintable(what)} ${paint('dim', `(${id})`)}`,
    `        ${why}`,
    `        > ${change}`,
    ''
  ])
  if (count > 0)
    return [...lines, paint('red', `${count} ${count === 1 ? 'problem has' : 'problems have'} to be fixed.`)]
  return [...lines, paint('green', lines.length === 0 ? 'No problems found.' : 'No problem has to be fixed.')]
}
