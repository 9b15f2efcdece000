import { readFileSync } from 'node:fs'
import { isSecureUrl } from 'express-did-auth/server-kit'
import type { z } from 'zod'
import { secretVariables, variableNames, variables } from './env-schema.js'
import { StartError } from './startup-error.js'

/** The three servers, and the default port of each. */
export const serverPorts = { auth: 3000, relay: 3001, vault: 3002 } as const
export type ServerName = keyof typeof serverPorts
const serverNames = Object.keys(serverPorts) as ServerName[]

export type Env = Readonly<Record<string, string | undefined>>

/** A file of variables. */
export interface EnvFile {
  name: string
  values: Env
  /** Names in it that no server has. */
  ignored: readonly string[]
}

/** Variables that each server has for itself under `all`, as `AUTH_PORT`. */
const OWN_VARIABLES: readonly string[] = ['PORT', 'SERVICE_URL']

/** A private key in the wrong variable, and user and password in a URL. */
const KEY = /[0-9a-f]{64,}/gi
const CREDENTIALS = /\/\/[^/]*@/g
const MAX_SHOWN_LENGTH = 100
const MAX_SHORT_NAME = 4

/** The parsed environment of a server. */
export type ServerEnv = z.output<typeof variables> & { name: ServerName; address: ServerAddress }

/** Purpose of reading an environment. `operate`: a command of the operator, which needs no identity. */
type Purpose = 'serve' | 'operate'

/** Address on which a server listens, and the variables that set it. */
export interface ServerAddress {
  /** Port number; 0 selects a free port. */
  port: number
  host: string
  variable: string
  /** Default `HOST`. */
  hostVariable?: string
}

/**
 * Reads the valid variables of one server. A variable that is invalid or empty counts as absent.
 *
 * @returns `problems`: all invalid variables, as `NAME: received "x"; remedy`. Secrets are not shown
 */
export function readValidEnv(
  env: Env,
  name: ServerName,
  isOneOfAll: boolean,
  purpose: Purpose = 'serve'
): { env: ServerEnv; problems: string[] } {
  const spelling = (variable: string): string =>
    isOneOfAll && OWN_VARIABLES.includes(variable) ? ownSpelling(name, variable) : variable
  const problems: string[] = []
  const values: Record<string, string | undefined> = {}
  for (const variable of variableNames) {
    const isSecret = secretVariables.includes(variable)
    const value = isSecret ? readSecret(env, variable, problems) : env[spelling(variable)]
    if (value !== '') values[variable] = value
  }
  const { data, error } = variables.safeParse(values)
  const wrong = new Map(error?.issues.map(({ path: [variable], message }) => [String(variable), message]))
  for (const [variable, remedy] of wrong) {
    problems.push(`${spelling(variable)}: received ${quoteValue(variable, values[variable] ?? '')}; ${remedy}`)
  }
  const ofAuth = name === 'auth' && values.RESOURCES !== undefined ? ['RESOURCE_KEY'] : []
  problems.push(...findConflicts(values, spelling, purpose === 'serve' ? [...SHARED_IDENTITY, ...ofAuth] : []))
  // Each variable may be absent.
  const right = data ?? variables.parse(Object.fromEntries(Object.entries(values).filter(([one]) => !wrong.has(one))))
  const { PORT: port = serverPorts[name], HOST: host } = right
  return { env: { ...right, name, address: { port, host, variable: spelling('PORT') } }, problems }
}

/** Reads the environments of servers, as {@link readValidEnv} does. @throws StartError that names all problems */
export function readEnvs(env: Env, names: readonly ServerName[], isAll: boolean, purpose?: Purpose): ServerEnv[] {
  const readings = names.map((name) => readValidEnv(env, name, isAll, purpose))
  const problems = new Set(readings.flatMap((reading) => reading.problems))
  if (problems.size === 0) return readings.map((reading) => reading.env)
  // A missing variable may be present under a misspelt name.
  for (const { variable, known } of findMisspellings(env)) problems.add(`${variable}: unknown; is it ${known}?`)
  throw new StartError(['Wrong environment:', ...problems].join('\n  - '))
}

/** Reads the environment of one server. @throws StartError as {@link readEnvs} does */
export function readEnv(env: Env, name: ServerName, isOneOfAll: boolean, purpose?: Purpose): ServerEnv {
  // One for each name.
  const [read] = readEnvs(env, [name], isOneOfAll, purpose) as [ServerEnv]
  return read
}

/** Returns variables that are set without effect, for a warning: `PORT` under `all`, `AUTH_PORT` for one server. */
export function readUnusedVariables(env: Env, names: readonly ServerName[], isAll: boolean): string[] {
  const unused = isAll ? OWN_VARIABLES : names.flatMap(ownSpellings)
  return unused.filter((variable) => (env[variable] ?? '') !== '')
}

/** Finds the names that no server reads. */
export function findUnknownVariables(env: Env): string[] {
  const known = knownVariables()
  return Object.keys(env).filter((variable) => !known.includes(variable))
}

/** Finds variables that no server reads, whose names are one edit away from that of one that is probably meant. */
export function findMisspellings(env: Env): { variable: string; known: string }[] {
  const known = knownVariables()
  return findUnknownVariables(env).flatMap((variable) => {
    if ((env[variable] ?? '') === '') return []
    const meant = known.find((name) => isOneEditAway(variable, name))
    return meant === undefined ? [] : [{ variable, known: meant }]
  })
}

/**
 * Whether a name became another one by a letter that is missing, too many or wrong, or by two that changed places.
 * Names of up to four letters have neighbours with a meaning of their own (`PAGE` and `PAGER`): there only the last
 * counts.
 */
function isOneEditAway(name: string, known: string): boolean {
  let start = 0
  while (start < known.length && name[start] === known[start]) start += 1
  const [rest, knownRest] = [name.slice(start), known.slice(start)]
  const [first = '', second = '', ...others] = rest
  if ([second, first, ...others].join('') === knownRest) return true
  if (known.length <= MAX_SHORT_NAME) return false
  return rest.slice(1) === knownRest || rest === knownRest.slice(1) || rest.slice(1) === knownRest.slice(1)
}

function knownVariables(): string[] {
  return [...variableNames, ...secretVariables.map((name) => `${name}_FILE`), ...serverNames.flatMap(ownSpellings)]
}

const ownSpelling = (name: ServerName, variable: string): string => `${name.toUpperCase()}_${variable}`
const ownSpellings = (name: ServerName): string[] => OWN_VARIABLES.map((variable) => ownSpelling(name, variable))

function quoteValue(variable: string, value: string): string {
  if (secretVariables.includes(variable)) return '(not shown)'
  const text = value.replace(KEY, '(not shown)').replace(CREDENTIALS, '//(not shown)@')
  return JSON.stringify(text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}…` : text)
}

/** A secret, from its variable or the file that another one names. What is wrong with them is added to the problems. */
function readSecret(env: Env, name: string, problems: string[]): string | undefined {
  const [value, file] = [env[name] ?? '', env[`${name}_FILE`] ?? '']
  if (file === '') return value
  if (value !== '') problems.push(`${name}: received together with ${name}_FILE; set only one of them`)
  try {
    const content = value === '' ? readFileSync(file, 'utf8').trim() : value
    if (content !== '') return content
    problems.push(`${name}_FILE: the file is empty`)
  } catch {
    // The name is not shown: the variable may contain the secret itself.
    problems.push(`${name}_FILE: the file cannot be read`)
  }
  return undefined
}

/** Variables that several instances share, and that no instance can generate for itself. */
const SHARED_IDENTITY = ['PRIVATE_KEY', 'CHALLENGE_SECRET', 'SERVICE_URL']
const OF_BUCKET = ['S3_ENDPOINT', 'S3_BUCKET', 'S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY']

/**
 * Finds conflicts between variables that are valid on their own.
 *
 * @param spelling - how the user spells a variable: `AUTH_SERVICE_URL` under `all`
 * @param shared - variables that instances share; none for an operator's command
 */
function findConflicts(values: Env, spelling: (variable: string) => string, shared: readonly string[]): string[] {
  const { IPFS_API_URL: nodeUrl, IPFS_ALLOW_INSECURE: allowed = 'false', DATABASE_URL: database } = values
  const isGiven = (variable: string): boolean => values[variable] !== undefined
  // Anybody who can reach a node's RPC controls it.
  const isExposed = nodeUrl !== undefined && allowed === 'false' && URL.canParse(nodeUrl) && !isSecureUrl(nodeUrl)
  const ofBucket = OF_BUCKET.filter(isGiven)
  // Otherwise each instance would generate an identity of its own, and refuse the tokens of the others.
  const missingIdentity = database === undefined ? [] : shared.filter((variable) => !isGiven(variable))
  const missingOfBucket = ofBucket.length > 0 ? OF_BUCKET.filter((variable) => !isGiven(variable)) : []
  const exposed = 'IPFS_API_URL: neither https nor on this machine; give such a URL, or IPFS_ALLOW_INSECURE=true'
  const ofInstances = 'missing; with DATABASE_URL give the same to every instance'
  return [
    ...(isExposed ? [exposed] : []),
    ...missingIdentity.map((variable) => `${spelling(variable)}: ${ofInstances}`),
    ...missingOfBucket.map((variable) => `${variable}: missing; it is needed with ${ofBucket.join(', ')}`)
  ]
}
