import { readFileSync } from 'node:fs'
import { z } from 'zod'

/** The three servers, and the port that each listens on when nothing else is said. */
export const serverPorts = { auth: 3000, relay: 3001, vault: 3002 } as const
export type ServerName = keyof typeof serverPorts

type Env = Readonly<Record<string, string | undefined>>

const wholeNumber = (least: number, remedy: string): z.ZodType<number, string> =>
  z
    .string()
    .regex(/^\d{1,15}$/, remedy)
    .transform(Number)
    .refine((value) => value >= least, remedy)

const positiveNumber = (remedy: string): z.ZodType<number, string> =>
  z
    .string()
    .regex(/^\d{1,12}(?:\.\d{1,12})?$/, remedy)
    .transform(Number)
    .refine((value) => value > 0, remedy)

const port = wholeNumber(0, 'give a port, 0 to 65535').refine((value) => value <= 65_535, 'give a port, 0 to 65535')
const httpUrl = z.url({ protocol: /^https?$/, error: 'give an http(s) URL' })
const truth = z.enum(['true', 'false'], { error: 'give true or false' }).transform((value) => value === 'true')
const list = z.string().transform((text) => text.split(',').flatMap((entry) => entry.trim() || []))
const origins = list.refine(
  (entries) => entries.every((entry) => URL.canParse(entry) && new URL(entry).origin === entry),
  'give origins separated by commas, such as https://app.example'
)
const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/, 'give a contract address, 0x and 40 hex digits')
const trustProxy = z
  .string()
  .transform((text) => (text === 'off' || text === 'false' ? false : /^\d+$/.test(text) ? Number(text) : text))
  .refine(
    (value) => typeof value !== 'string' || /^[\w.:/, ]+$/.test(value),
    'give off, a number of proxies, or addresses separated by commas'
  )

/** Every variable of the auth server, with how it is read. What is absent stays undefined here. */
const variables = z.object({
  PORT: port.optional(),
  HOST: z.string().min(1).optional(),
  SERVICE_URL: httpUrl.optional(),
  PRIVATE_KEY: z
    .string()
    .regex(/^(?:0x)?[0-9a-fA-F]{64}$/, 'give 64 hex digits')
    .optional(),
  CHALLENGE_SECRET: z
    .string()
    .refine((value) => Buffer.byteLength(value) >= 32, 'give 32 bytes or more')
    .optional(),
  SERVICE_DID: z
    .string()
    .regex(/^did:[a-z0-9]+:[\w.:%-]{1,110}$/, 'give a DID')
    .optional(),
  NETWORK_NAME: z
    .string()
    .regex(/^[A-Za-z][\w-]*(?::[A-Za-z][\w-]*)?$|^0x[0-9a-fA-F]{1,16}$/, 'give a network, such as rsk or rsk:testnet')
    .optional(),
  RPC_URL: httpUrl.optional(),
  REGISTRY: address.optional(),
  DATA_DIR: z.string().min(1).default('./data'),
  USE_COOKIES: truth.optional(),
  TRUSTED_ORIGINS: origins.default([]),
  CORS_ORIGINS: origins.default([]),
  TRUST_PROXY: trustProxy.default(false),
  LOG_LEVEL: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], { error: 'give debug, info, warn, error or silent' })
    .default('info'),
  METRICS_PORT: port.optional(),
  REPLAY_PROTECTION: z.enum(['single-use', 'window'], { error: 'give single-use or window' }).optional(),
  REFRESH_REUSE_GRACE_SECONDS: wholeNumber(0, 'give a number of seconds').optional(),
  MAX_REQUESTS_PER_TIME_SLOT: wholeNumber(1, 'give a number of requests, at least 1').optional(),
  TIME_SLOT_IN_SECONDS: wholeNumber(1, 'give a number of seconds, at least 1').optional(),
  CHALLENGE_EXPIRATION_TIME_IN_SECONDS: wholeNumber(1, 'give a number of seconds, at least 1').optional(),
  ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: wholeNumber(1, 'give a number of seconds, at least 1').optional(),
  USER_SESSION_DURATION_IN_HOURS: positiveNumber('give a number of hours above 0').optional()
})

/** Names of all variables, for the test that holds the README against them. */
export const variableNames: readonly string[] = Object.keys(variables.shape)

/** Variables that are secrets: never shown, and also read from the file that `<NAME>_FILE` names. */
const SECRETS = ['PRIVATE_KEY', 'CHALLENGE_SECRET'] as const

/** What a server is told by its environment. */
export type ServerEnv = z.output<typeof variables> & { name: ServerName; port: number; host: string }

/** Everything that is wrong with the environment, in one message. */
export class EnvError extends Error {
  override readonly name = 'EnvError'

  constructor(problems: readonly string[]) {
    super(`wrong environment:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`)
  }
}

/**
 * Reads the environment of one server. An empty variable counts as absent.
 *
 * @param isOneOfAll - under `all` each server has its own port and URL: `AUTH_PORT`, `AUTH_SERVICE_URL`
 * @throws EnvError naming every wrong variable at once; secrets are not shown
 */
export function readEnv(env: Env, name: ServerName, isOneOfAll: boolean): ServerEnv {
  const problems: string[] = []
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''))
  const spelling = (variable: string): string =>
    isOneOfAll && (variable === 'PORT' || variable === 'SERVICE_URL') ? `${name.toUpperCase()}_${variable}` : variable
  const values = Object.fromEntries(variableNames.map((variable) => [variable, given[spelling(variable)]]))
  for (const secret of SECRETS) {
    try {
      values[secret] = readSecret(given, secret)
    } catch (error) {
      problems.push(error instanceof Error ? error.message : secret)
    }
  }
  const parsed = variables.safeParse(values)
  for (const issue of parsed.error?.issues ?? []) {
    const variable = String(issue.path[0])
    const isSecret = SECRETS.some((secret) => secret === variable)
    const received = isSecret ? '(not shown)' : JSON.stringify(values[variable])
    problems.push(`${spelling(variable)}: received ${received}; ${issue.message}`)
  }
  if (parsed.data === undefined || problems.length > 0) throw new EnvError(problems)
  const { PORT, HOST } = parsed.data
  return { ...parsed.data, name, port: PORT ?? serverPorts[name], host: HOST ?? '127.0.0.1' }
}

function readSecret(env: Env, name: (typeof SECRETS)[number]): string | undefined {
  const file = env[`${name}_FILE`]
  if (file === undefined) return env[name]
  if (env[name] !== undefined) throw new Error(`${name}: received together with ${name}_FILE; give one of the two`)
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    throw new Error(`${name}_FILE: received ${JSON.stringify(file)}; give a file that can be read`)
  }
}
