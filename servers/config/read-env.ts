import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { StartError } from './startup-error.js'
import { forms } from './env-schema.js'

/** The three servers, and the default port of each. */
export const serverPorts = { auth: 3000, relay: 3001, vault: 3002 } as const
export type ServerName = keyof typeof serverPorts

const MEBIBYTE = 1_048_576
const DAY_SECONDS = 86_400
/** A quarter of the budget for uploads, which is what one user may upload at once: a larger body would never fit. */
const MAX_UPLOAD_BYTES = 64 * MEBIBYTE

const uploadBytes = forms.bytes.refine((value) => value <= MAX_UPLOAD_BYTES, `give at most ${MAX_UPLOAD_BYTES}`)

type Env = Readonly<Record<string, string | undefined>>

/** Every variable of the servers, with how it is parsed. An absent one without default stays undefined. */
const variables = z.object({
  PORT: forms.port.optional(),
  HOST: forms.text.default('127.0.0.1'),
  SERVICE_URL: forms.serviceUrl.optional(),
  PRIVATE_KEY: forms.privateKey.optional(),
  CHALLENGE_SECRET: forms.secret.optional(),
  SERVICE_DID: forms.did.optional(),
  NETWORK_NAME: forms.network.optional(),
  RPC_URL: forms.httpUrl.optional(),
  REGISTRY: forms.address.optional(),
  DATA_DIR: forms.text.default('./data'),
  USE_COOKIES: forms.truth.optional(),
  TRUSTED_ORIGINS: forms.origins.default([]),
  CORS_ORIGINS: forms.origins.default([]),
  TRUST_PROXY: forms.trustProxy.default(false),
  LOG_LEVEL: forms.logLevel.default('info'),
  LOG_FORMAT: forms.logFormat.optional(),
  METRICS_PORT: forms.port.optional(),
  MAX_CONNECTIONS: forms.connections.default(4_096),
  DRAIN_SECONDS: forms.secondsOrNone.default(0),
  PAGE: forms.truth.default(true),
  REPLAY_PROTECTION: forms.replayProtection.optional(),
  REFRESH_REUSE_GRACE_SECONDS: forms.secondsOrNone.optional(),
  LOGIN_DOMAINS: forms.loginDomains.optional(),
  COOKIE_PREFIX: forms.cookiePrefix.optional(),
  ABSOLUTE_SESSION_DURATION_IN_HOURS: forms.hours.optional(),
  ERROR_FORMAT: forms.errorFormat.optional(),
  MAX_REQUESTS_PER_TIME_SLOT: forms.requests.optional(),
  TIME_SLOT_IN_SECONDS: forms.seconds.optional(),
  CHALLENGE_EXPIRATION_TIME_IN_SECONDS: forms.seconds.optional(),
  ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: forms.seconds.optional(),
  USER_SESSION_DURATION_IN_HOURS: forms.hours.optional(),
  IPFS_API_URL: forms.httpUrl.optional(),
  IPFS_ALLOW_INSECURE: forms.truth.default(false),
  RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS: forms.seconds.default(600),
  RELAY_MAX_FILE_BYTES: uploadBytes.default(8 * MEBIBYTE),
  RELAY_MAX_MEMORY_BYTES: forms.bytes.default(64 * MEBIBYTE),
  RELAY_MAX_BYTES_PER_DID: forms.bytes.default(64 * MEBIBYTE),
  RELAY_FILE_TTL_SECONDS: forms.seconds.default(7 * DAY_SECONDS),
  RELAY_MAX_STORE_BYTES: forms.bytes.default(8_192 * MEBIBYTE),
  VAULT_MAX_CONTENT_BYTES: uploadBytes.default(MEBIBYTE),
  VAULT_MAX_BYTES_PER_DID: forms.bytes.default(64 * MEBIBYTE),
  VAULT_MAX_ENTRIES_PER_DID: forms.entries.default(10_000)
})

/** Compared with each other, also when other variables are wrong. */
const nodeVariables = variables.pick({ IPFS_API_URL: true, IPFS_ALLOW_INSECURE: true })

/** Names of all variables, for the test that compares the README with them. */
export const variableNames: readonly string[] = Object.keys(variables.shape)

/** Secrets: never shown, and also read from the file that `<NAME>_FILE` names. The address of a node often carries a key. */
export const secretVariables: readonly string[] = ['PRIVATE_KEY', 'CHALLENGE_SECRET', 'RPC_URL', 'IPFS_API_URL']

/** Variables that each server has for itself under `all`, as `AUTH_PORT`. */
const OWN_VARIABLES: readonly string[] = ['PORT', 'SERVICE_URL']

// A private key in the wrong variable.
const KEY = /[0-9a-f]{64,}/gi
const MAX_SHOWN_LENGTH = 100

/** The parsed environment of a server. */
export type ServerEnv = z.output<typeof variables> & { name: ServerName; address: ServerAddress }

/** Where a server listens, and the variable that sets the port. */
export interface ServerAddress {
  port: number
  host: string
  variable: string
}

/** Everything that is wrong with the environment, in one message. */
export class EnvError extends StartError {
  override readonly name = 'EnvError'
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(`Wrong environment:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`)
    this.problems = problems
  }
}

/**
 * Reads something of the environment for each item, such as a server.
 *
 * @throws EnvError naming what is wrong for any of them, each problem once
 */
export function readForEach<T, R>(items: readonly T[], read: (item: T) => R): R[] {
  const problems = new Set<string>()
  const results = items.flatMap((item) => {
    try {
      return [read(item)]
    } catch (error) {
      if (!(error instanceof EnvError)) throw error
      for (const problem of error.problems) problems.add(problem)
      return []
    }
  })
  if (problems.size > 0) throw new EnvError([...problems])
  return results
}

/**
 * Reads the environment of one server. An empty variable counts as absent.
 *
 * @param isOneOfAll - under `all` each server has its own port and URL: `AUTH_PORT`, `AUTH_SERVICE_URL`
 * @throws EnvError naming every wrong variable at once; secrets are not shown
 */
export function readEnv(env: Env, name: ServerName, isOneOfAll: boolean): ServerEnv {
  const spelling = (variable: string): string =>
    isOneOfAll && OWN_VARIABLES.includes(variable) ? ownSpelling(name, variable) : variable
  const problems: string[] = []
  const values: Record<string, string | undefined> = {}
  for (const variable of variableNames) {
    try {
      values[variable] = secretVariables.includes(variable) ? readSecret(env, variable) : env[spelling(variable)]
    } catch (error) {
      problems.push(error instanceof StartError ? error.message : variable)
    }
    if (values[variable] === '') values[variable] = undefined
  }
  const parsed = variables.safeParse(values)
  const wrong = new Map(parsed.error?.issues.map(({ path: [variable], message }) => [String(variable), message]))
  for (const [variable, remedy] of wrong) {
    problems.push(`${spelling(variable)}: received ${shown(variable, values[variable] ?? '')}; ${remedy}`)
  }
  const node = nodeVariables.safeParse(values).data
  if (node?.IPFS_ALLOW_INSECURE === false && !isPrivateUrl(node.IPFS_API_URL)) {
    problems.push('IPFS_API_URL: neither https nor on this machine; give such a URL, or IPFS_ALLOW_INSECURE=true')
  }
  if (parsed.data === undefined || problems.length > 0) throw new EnvError(problems)
  const { PORT: port = serverPorts[name], HOST: host } = parsed.data
  return { ...parsed.data, name, address: { port, host, variable: spelling('PORT') } }
}

/** Variables that are set and have no effect, for a warning: `PORT` under `all`, `AUTH_PORT` for one server alone. */
export function readUnusedVariables(env: Env, names: readonly ServerName[], isAll: boolean): string[] {
  const unused = isAll
    ? OWN_VARIABLES
    : names.flatMap((name) => OWN_VARIABLES.map((variable) => ownSpelling(name, variable)))
  return unused.filter((variable) => (env[variable] ?? '') !== '')
}

function ownSpelling(name: ServerName, variable: string): string {
  return `${name.toUpperCase()}_${variable}`
}

/** Whether the connection to a node is private: anybody who can reach a node's RPC controls it. */
function isPrivateUrl(text: string | undefined): boolean {
  if (text === undefined) return true
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || /^(?:localhost|.*\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
}

function shown(variable: string, value: string): string {
  if (secretVariables.includes(variable)) return '(not shown)'
  const text = value.replace(KEY, '(not shown)')
  return JSON.stringify(text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}…` : text)
}

function readSecret(env: Env, name: string): string | undefined {
  const file = env[`${name}_FILE`] ?? ''
  const value = env[name] ?? ''
  if (file === '') return value
  if (value !== '') throw new StartError(`${name}: received together with ${name}_FILE; give one of the two`)
  let content: string
  try {
    content = readFileSync(file, 'utf8').trim()
  } catch {
    // The name is not shown: the variable may contain the secret itself.
    throw new StartError(`${name}_FILE: names no file that can be read`)
  }
  if (content === '') throw new StartError(`${name}_FILE: names an empty file`)
  return content
}
