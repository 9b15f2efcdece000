import { parseHttpUrl } from 'express-did-auth/server-kit'
import { readValidEnv, findMisspellings, serverPorts, type ServerName } from '../../config/read-env.js'
import { createPainter, toPrintable, toPrintableJson, readArguments, readUrl, UsageError } from '../command-line.js'
import type { CommandLine, Paint } from '../command-line.js'
import { checkEnv } from './environment.js'
import { change, type Finding, type Findings } from './finding.js'
import { checkMachine, type MachineOptions } from './machine.js'
import { checkEngines, checkNetwork, type NetworkOptions } from './network.js'
import { checkService } from './running-service.js'

const OPTIONS = {
  origin: { type: 'string', multiple: true },
  server: { type: 'string' },
  json: { type: 'boolean' }
} as const

type Env = CommandLine['env']
/** Parts of the machine and the network that tests replace. */
export interface DoctorOptions extends NetworkOptions, MachineOptions {
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
  const { args, env, out } = commandLine
  const { values, positionals } = readArguments(args, OPTIONS, [0, 1])
  const [url] = positionals
  const results =
    url === undefined
      ? await examineEnvironment(env, parseServer(values.server), options)
      : await examineService(readUrl(url), env, { origins: values.origin ?? [], ...options })
  // The servers of an environment share most variables, and so most findings.
  const distinct = new Map(
    results.flatMap((finding) => (finding === false ? [] : [[JSON.stringify(finding), finding] as const]))
  )
  const findings = [...distinct.values()]
  if (values.json === true) out(toPrintableJson({ findings }))
  else for (const line of formatFindings(findings, createPainter(commandLine))) out(line)
  return findings.some(({ level }) => level === 'change') ? 1 : 0
}

/** Checks the environment of a server. Default: auth if `PORT` or `SERVICE_URL` is set, otherwise all servers. */
async function examineEnvironment(env: Env, server: Server, options: DoctorOptions): Promise<Findings> {
  const isSingleServer = (env.PORT ?? '') !== '' || (env.SERVICE_URL ?? '') !== ''
  const chosen = server ?? (isSingleServer ? 'auth' : 'all')
  const names: ServerName[] = chosen === 'all' ? ['auth', 'relay', 'vault'] : [chosen]
  const readings = names.map((name) => readValidEnv(env, name, chosen === 'all'))
  const [auth] = chosen === 'all' ? readings : []
  const ownIssuer = auth && (auth.env.SERVICE_URL ?? `http://localhost:${auth.env.address.port}`)
  const checks = [
    ...readings.slice(0, 1).map((reading) => checkEngines(reading.env)),
    ...readings.map((reading) => checkMachine(reading.env, options)),
    ...readings.map((reading) => checkNetwork(reading.env, { ...options, ownIssuer }))
  ]
  return [
    ...findMisspellings(env).map(({ variable, suggestion }) =>
      change('misspelt-variable', `${variable} is not a variable of the servers`, `${suggestion}=…`)
    ),
    ...readings.flatMap(({ problems }) => problems.map(toFinding)),
    ...readings.flatMap((reading) => checkEnv(reading.env)),
    ...(await Promise.all(checks)).flat()
  ]
}

/** Converts a problem of {@link readValidEnv}, such as `NAME: received "x"; remedy`, to a finding. */
function toFinding(problem: string): Finding {
  const [variable = '', received = ''] = problem.split(/: (.*)/s)
  const [, remedy = received] = received.split(/; (.*)/s)
  return change('invalid-variable', problem, `${variable}=… (${remedy})`)
}

async function examineService(
  url: URL,
  env: Env,
  { origins, maxMilliseconds }: DoctorOptions & { origins: readonly string[] }
): Promise<Findings> {
  const invalidOrigin = origins.find((origin) => readUrl(origin).origin !== origin)
  if (invalidOrigin !== undefined)
    throw new UsageError(`${invalidOrigin} is not an origin, such as https://app.example`)
  const { TRUSTED_ORIGINS, CORS_ORIGINS, TRUST_PROXY, SERVICE_URL } = readValidEnv(env, 'auth', false).env
  const allOrigins = new Set([...origins, ...TRUSTED_ORIGINS, ...CORS_ORIGINS])
  // TRUST_PROXY counts only if the environment is that of the examined service.
  const isOwnEnv = parseHttpUrl(SERVICE_URL ?? '')?.origin === url.origin
  return checkService(url, {
    origins: [...allOrigins],
    trustProxy: isOwnEnv ? TRUST_PROXY : undefined,
    maxMilliseconds
  })
}

function parseServer(text: string | undefined): Server {
  const names = [...(Object.keys(serverPorts) as ServerName[]), 'all' as const]
  const server = names.find((name) => name === text)
  if (text !== undefined && server === undefined) throw new UsageError(`--server must be one of ${names.join(', ')}`)
  return server
}

/** Formats findings as lines. Findings that require a change come first. */
function formatFindings(findings: readonly Finding[], paint: Paint): string[] {
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
