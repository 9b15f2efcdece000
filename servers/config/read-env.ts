import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describeValue, isSecureUrl } from 'express-did-auth/server-kit'
import type { z } from 'zod'
import { secretVariables, variableNames, variables } from './env-schema.js'
import { UNFINISHED_RESTORE } from './private-files.js'
import { StartError } from './startup-error.js'

/** Default port of each server. */
export const serverPorts = { auth: 3000, relay: 3001, vault: 3002 } as const
export type ServerName = keyof typeof serverPorts
const serverNames = Object.keys(serverPorts) as ServerName[]

export type Env = Readonly<Record<string, string | undefined>>

/** File with variables. */
export interface EnvFile {
  name: string
  values: Env
  /** Names in the file that are not variables of the servers. */
  ignored: readonly string[]
}

/** Variables that are separate for each server under `all`, such as `AUTH_PORT`. */
const PER_SERVER_VARIABLES: readonly string[] = ['PORT', 'SERVICE_URL']

/** User and password of a URL, which the value of any variable may contain by mistake. */
const CREDENTIALS = /\/\/[^/]*@/g
/** Length up to which a name is short, so that many other names are one edit away. */
const MAX_SHORT_NAME = 4

/** The parsed environment of a server. */
export type ServerEnv = z.output<typeof variables> & { name: ServerName; address: ServerAddress }

/** Purpose of reading an environment. `operate`: a command, which needs no identity of the service. */
type Purpose = 'serve' | 'operate'

/** Address on which a server listens, and the variables that configure it. */
export interface ServerAddress {
  /** Port number; 0 selects a free port. */
  port: number
  host: string
  variable: string
  /** Default `HOST`. */
  hostVariable?: string
}

/**
 * Reads the variables of one server. Invalid and empty variables count as absent.
 *
 * @returns `problems`: one text for each invalid variable, `NAME: received "x"; remedy`. Secrets are not shown
 */
export function readValidEnv(
  env: Env,
  name: ServerName,
  isOneOfAll: boolean,
  purpose: Purpose = 'serve'
): { env: ServerEnv; problems: string[] } {
  const toEnvName = (variable: string): string =>
    isOneOfAll && PER_SERVER_VARIABLES.includes(variable) ? nameForServer(name, variable) : variable
  const problems: string[] = []
  const values: Record<string, string | undefined> = {}
  for (const variable of variableNames) {
    const isSecret = secretVariables.includes(variable)
    const value = isSecret ? readSecret(env, variable, problems) : env[toEnvName(variable)]
    if (value !== '') values[variable] = value
  }
  const { data, error } = variables.safeParse(values)
  const remedies = new Map(error?.issues.map(({ path: [variable], message }) => [String(variable), message]))
  for (const [variable, remedy] of remedies) {
    problems.push(`${toEnvName(variable)}: received ${quoteValue(variable, values[variable] ?? '')}; ${remedy}`)
  }
  const authKeys = name === 'auth' && values.RESOURCES !== undefined ? ['RESOURCE_KEY'] : []
  problems.push(...findConflicts(values, toEnvName, purpose === 'serve' ? [...SHARED_IDENTITY, ...authKeys] : []))
  // The valid variables can be parsed without the invalid ones, because every variable is optional.
  const isValid = ([variable]: [string, unknown]): boolean => !remedies.has(variable)
  const parsed = data ?? variables.parse(Object.fromEntries(Object.entries(values).filter(isValid)))
  const { PORT: port = serverPorts[name], HOST: host, DATA_DIR: folder } = parsed
  if (existsSync(join(folder, UNFINISHED_RESTORE))) {
    problems.push(
      `DATA_DIR: a restore to ${folder} did not finish; delete everything in that folder, then restore again`
    )
  }
  return { env: { ...parsed, name, address: { port, host, variable: toEnvName('PORT') } }, problems }
}

/** Reads the environments of several servers. @throws StartError that names all problems of all of them */
export function readEnvs(env: Env, names: readonly ServerName[], isAll: boolean, purpose?: Purpose): ServerEnv[] {
  const readings = names.map((name) => readValidEnv(env, name, isAll, purpose))
  const problems = new Set(readings.flatMap((reading) => reading.problems))
  if (problems.size === 0) return readings.map((reading) => reading.env)
  // A missing variable may be set under a misspelt name.
  for (const { variable, suggestion } of findMisspellings(env)) {
    problems.add(`${variable}: unknown variable; did you mean ${suggestion}?`)
  }
  throw new StartError(['Invalid environment variables:', ...problems].join('\n  - '))
}

/** Reads the environment of one server. @throws StartError as {@link readEnvs} does */
export function readEnv(env: Env, name: ServerName, isOneOfAll: boolean, purpose?: Purpose): ServerEnv {
  const [serverEnv] = readEnvs(env, [name], isOneOfAll, purpose) as [ServerEnv]
  return serverEnv
}

/** Finds variables that have no effect, for a warning: `PORT` under `all`, or `AUTH_PORT` for a single server. */
export function findUnusedVariables(env: Env, names: readonly ServerName[], isAll: boolean): string[] {
  const unused = isAll ? PER_SERVER_VARIABLES : names.flatMap(namesForServer)
  return unused.filter((variable) => (env[variable] ?? '') !== '')
}

/** Finds variables that no server reads. */
export function findUnknownVariables(env: Env): string[] {
  const allNames = listAllNames()
  return Object.keys(env).filter((variable) => !allNames.includes(variable))
}

/** Describes variables of a file that the servers ignore, in a sentence for the operator. */
export function describeIgnoredVariables({ name, ignored }: EnvFile): string {
  return `The servers ignore these variables of ${name}, because they do not have them: ${ignored.join(', ')}`
}

/** Finds unknown variables whose name is one edit away from a known name, which is probably meant. */
export function findMisspellings(env: Env): { variable: string; suggestion: string }[] {
  const allNames = listAllNames()
  return findUnknownVariables(env).flatMap((variable) => {
    if ((env[variable] ?? '') === '') return []
    const suggestion = allNames.find((name) => isOneEditAway(variable, name))
    return suggestion === undefined ? [] : [{ variable, suggestion }]
  })
}

/**
 * Whether a name differs from a known name by one missing, additional or wrong letter, or by two swapped letters. For
 * names of up to four letters only swapped letters count, because similar names are common (`PAGE` and `PAGER`).
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

/** Lists all names that a server reads, including those of files and those under `all`. */
function listAllNames(): string[] {
  return [...variableNames, ...secretVariables.map((name) => `${name}_FILE`), ...serverNames.flatMap(namesForServer)]
}

const nameForServer = (name: ServerName, variable: string): string => `${name.toUpperCase()}_${variable}`
const namesForServer = (name: ServerName): string[] =>
  PER_SERVER_VARIABLES.map((variable) => nameForServer(name, variable))

function quoteValue(variable: string, value: string): string {
  if (secretVariables.includes(variable)) return '(not shown)'
  return describeValue('variable', value.replace(CREDENTIALS, '//(not shown)@'))
}

/** Reads a secret from its variable, or from the file in `<NAME>_FILE`. Errors are added to `problems`. */
function readSecret(env: Env, name: string, problems: string[]): string | undefined {
  const [value, file] = [env[name] ?? '', env[`${name}_FILE`] ?? '']
  if (file === '') return value
  if (value !== '') problems.push(`${name}: received together with ${name}_FILE; set only one of them`)
  try {
    const content = value === '' ? readFileSync(file, 'utf8').trim() : value
    if (content !== '') return content
    problems.push(`${name}_FILE: the file is empty`)
  } catch {
    // The file name is not shown, because the variable may contain the secret itself by mistake.
    problems.push(`${name}_FILE: the file cannot be read`)
  }
  return undefined
}

/** Variables that must be equal on all instances, so that no instance can generate them. */
const SHARED_IDENTITY = ['PRIVATE_KEY', 'CHALLENGE_SECRET', 'SERVICE_URL']
const BUCKET_VARIABLES = ['S3_ENDPOINT', 'S3_BUCKET', 'S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY']

/**
 * Finds conflicts between variables that are valid individually.
 *
 * @param toEnvName - returns the name in the environment, such as `AUTH_SERVICE_URL` under `all`
 * @param shared - variables that must be equal on all instances; none for a command
 */
function findConflicts(values: Env, toEnvName: (variable: string) => string, shared: readonly string[]): string[] {
  const { IPFS_API_URL: nodeUrl, IPFS_ALLOW_INSECURE: allowed = 'false', DATABASE_URL: database } = values
  const isSet = (variable: string): boolean => values[variable] !== undefined
  // Everyone who can reach the RPC port of a node controls the node.
  const isExposed = nodeUrl !== undefined && allowed === 'false' && URL.canParse(nodeUrl) && !isSecureUrl(nodeUrl)
  const bucketVariables = BUCKET_VARIABLES.filter(isSet)
  // Otherwise each instance would generate its own identity, and refuse the tokens of the others.
  const missingIdentity = database === undefined ? [] : shared.filter((variable) => !isSet(variable))
  const missingOfBucket = bucketVariables.length > 0 ? BUCKET_VARIABLES.filter((name) => !isSet(name)) : []
  const exposed = 'IPFS_API_URL: neither https nor on this machine; give such a URL, or set IPFS_ALLOW_INSECURE=true'
  const missingOnInstance = 'missing; with DATABASE_URL, every instance needs the same value'
  return [
    ...(isExposed ? [exposed] : []),
    ...missingIdentity.map((variable) => `${toEnvName(variable)}: ${missingOnInstance}`),
    ...missingOfBucket.map(
      (variable) => `${variable}: missing; it is required together with ${bucketVariables.join(', ')}`
    )
  ]
}
