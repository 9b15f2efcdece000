import { parseHttpUrl } from 'express-did-auth/server-kit'
import { readValidEnv, findMisspellings, serverPorts, type ServerName } from '../../config/read-env.js'
import { createPainter, toPrintable, toPrintableJson, readArguments, readUrl, UsageError } from '../command-line.js'
import type { CommandLine, Paint } from '../command-line.js'
import { checkEnv } from './environment.js'
import { change, type Finding, type Found } from './finding.js'
import { checkMachine, type MachineDependencies } from './machine.js'
import { checkEngines, checkNetwork, type NetworkDependencies } from './network.js'
import { checkService } from './running-service.js'

const OPTIONS = {
  origin: { type: 'string', multiple: true },
  server: { type: 'string' },
  json: { type: 'boolean' }
} as const

type Env = CommandLine['env']
/** Surroundings that a test replaces. */
export interface DoctorDependencies extends NetworkDependencies, MachineDependencies {
  /** Time limit for all requests to a service. Default 10 s. */
  maxMilliseconds?: number | undefined
}
type Server = ServerName | 'all' | undefined

/**
 * `doctor`: finds what is wrong with the environment; `doctor <url>`: with a running service, and with what the
 * environment says about it. @returns the exit code: 1 when something has to be changed, else 0 @throws UsageError
 */
export async function runDoctor(commandLine: CommandLine, dependencies: DoctorDependencies = {}): Promise<number> {
  const { args, env, out } = commandLine
  const { values, positionals } = readArguments(args, OPTIONS, [0, 1])
  const [text] = positionals
  const found =
    text === undefined
      ? await examineEnvironment(env, parseServer(values.server), dependencies)
      : await examineService(readUrl(text), env, { origins: values.origin ?? [], ...dependencies })
  // Several servers of one environment share most of it.
  const distinct = new Map(found.flatMap((one) => (one === false ? [] : [[JSON.stringify(one), one] as const])))
  const findings = [...distinct.values()]
  if (values.json === true) out(toPrintableJson({ findings }))
  else for (const line of formatFindings(findings, createPainter(commandLine))) out(line)
  return findings.some(({ level }) => level === 'change') ? 1 : 0
}

/** Checks the environment of a server. Default: the servers of `all`, unless the environment is that of one server. */
async function examineEnvironment(env: Env, server: Server, dependencies: DoctorDependencies): Promise<Found> {
  const isOfOne = (env.PORT ?? '') !== '' || (env.SERVICE_URL ?? '') !== ''
  const chosen = server ?? (isOfOne ? 'auth' : 'all')
  const names: ServerName[] = chosen === 'all' ? ['auth', 'relay', 'vault'] : [chosen]
  const readings = names.map((name) => readValidEnv(env, name, chosen === 'all'))
  const [auth] = chosen === 'all' ? readings : []
  const ownIssuer = auth && (auth.env.SERVICE_URL ?? `http://localhost:${auth.env.address.port}`)
  const asked = [
    ...readings.slice(0, 1).map((reading) => checkEngines(reading.env)),
    ...readings.map((reading) => checkMachine(reading.env, dependencies)),
    ...readings.map((reading) => checkNetwork(reading.env, { ...dependencies, ownIssuer }))
  ]
  return [
    ...findMisspellings(env).map((one) => change('misspelt-variable', `${one.variable} is unknown`, `${one.known}=…`)),
    ...readings.flatMap(({ problems }) => problems.map(toFinding)),
    ...readings.flatMap((reading) => checkEnv(reading.env)),
    ...(await Promise.all(asked)).flat()
  ]
}

/** @param problem - `NAME: received "x"; remedy` */
function toFinding(problem: string): Finding {
  const [variable = '', received = ''] = problem.split(/: (.*)/s)
  const [, remedy = received] = received.split(/; (.*)/s)
  return change('invalid-variable', problem, `${variable}=… (${remedy})`)
}

async function examineService(
  url: URL,
  env: Env,
  { origins, maxMilliseconds }: DoctorDependencies & { origins: readonly string[] }
): Promise<Found> {
  const wrong = origins.find((origin) => readUrl(origin).origin !== origin)
  if (wrong !== undefined) throw new UsageError(`${wrong} is not an origin`)
  const { TRUSTED_ORIGINS, CORS_ORIGINS, TRUST_PROXY, SERVICE_URL } = readValidEnv(env, 'auth', false).env
  const all = new Set([...origins, ...TRUSTED_ORIGINS, ...CORS_ORIGINS])
  // The environment of another service says nothing about the proxies of this one.
  const isItsOwn = parseHttpUrl(SERVICE_URL ?? '')?.origin === url.origin
  return checkService(url, { origins: [...all], trustProxy: isItsOwn ? TRUST_PROXY : undefined, maxMilliseconds })
}

function parseServer(text: string | undefined): Server {
  const known = [...(Object.keys(serverPorts) as ServerName[]), 'all' as const]
  const found = known.find((name) => name === text)
  if (text !== undefined && found === undefined) throw new UsageError(`--server: give ${known.join(', ')}`)
  return found
}

/** Formats findings for users. Those that require a change come first. */
function formatFindings(findings: readonly Finding[], paint: Paint): string[] {
  const count = findings.filter(({ level }) => level === 'change').length
  const sorted = [...findings].sort((one, other) => one.level.localeCompare(other.level))
  const lines = sorted.flatMap(({ id, level, what, why, change }) => [
    `${level === 'change' ? paint('red', 'CHANGE') : paint('yellow', 'note  ')}  ${toPrintable(what)} ${paint('dim', `(${id})`)}`,
    `        ${why}`,
    `        > ${change}`,
    ''
  ])
  if (count > 0) return [...lines, paint('red', `${count} to change.`)]
  return [...lines, paint('green', lines.length === 0 ? 'Nothing found.' : 'Nothing has to be changed.')]
}
