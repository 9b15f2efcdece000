import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { acceptedLoginDomains, MAX_LOGIN_DOMAINS } from 'express-did-auth/protocol'
import { isLoopbackHost } from 'express-did-auth/server-kit'
import { ownCommand } from '../../config/startup-error.js'
import {
  EnvError,
  findMisspellings,
  readEnv,
  readUnusedVariables,
  type ServerEnv,
  type ServerName
} from '../../config/read-env.js'
import { assertIpfsClientInstalled } from '../../ipfs/load-ipfs-client.js'
import { addressChecks, pageChecks, type Page } from './address-checks.js'
import { change, examine, note, type Checks, type Finding } from './finding.js'

type Variables = Readonly<Record<string, string | undefined>>

/** One server as the environment describes it. */
export interface Plan {
  env: ServerEnv
  /** Undefined if a browser cannot open `SERVICE_URL`. */
  url: URL | undefined
  urlVariable: string
  loginDomains: readonly string[]
}

/** The environment of servers, as it was read. */
export interface Reading {
  /** One for each server whose rest can be read. */
  plans: Plan[]
  unused: readonly string[]
  misspelt: ReturnType<typeof findMisspellings>
  /** `NAME: received "x"; remedy`. */
  problems: readonly string[]
}

/** Keys that are printed in the documents of development chains. */
const PUBLISHED_KEYS = new Set([
  'ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80',
  '59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
  '5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a'
])
const LEAST_SECRET_BITS = 100

/** Reads the environment of servers. Wrong variables are left out, so that the other checks can run. */
export function readPlans(env: Variables, names: readonly ServerName[], isAll: boolean): Reading {
  const misspelt = findMisspellings(env)
  const spelled = { ...env, ...Object.fromEntries(misspelt.map(({ variable }) => [variable, undefined])) }
  const problems = new Set<string>()
  const plans = names.flatMap((name): Plan[] => {
    const read = readValid(spelled, name, isAll, problems)
    if (read === undefined) return []
    const text = read.SERVICE_URL ?? `http://localhost:${read.address.port}`
    const url = /^https?:/i.test(text) && URL.canParse(text) ? new URL(text) : undefined
    const loginDomains = acceptedLoginDomains(url?.href.replace(/\/$/, '') ?? text, read.LOGIN_DOMAINS ?? [])
    return [{ env: read, url, urlVariable: read.address.variable.replace('PORT', 'SERVICE_URL'), loginDomains }]
  })
  return { plans, unused: readUnusedVariables(env, names, isAll), misspelt, problems: [...problems] }
}

/** The environment of a server without what is wrong with it, which is added to the problems. */
function readValid(env: Variables, name: ServerName, isAll: boolean, found: Set<string>): ServerEnv | undefined {
  try {
    return readEnv(env, name, isAll)
  } catch (error) {
    for (const problem of problemsIn(error)) found.add(problem)
  }
  for (let left = env; ;) {
    try {
      // A missing identity cannot be left out.
      return readEnv(left, name, isAll, 'operate')
    } catch (error) {
      // Each problem names its variable, and those that have the variable as their condition.
      const named = new Set(problemsIn(error).flatMap((problem) => problem.match(/\b[A-Z][A-Z0-9_]+\b/g) ?? []))
      const rest = Object.entries(left).filter(([one]) => !named.has(one) && !named.has(one.replace(/_FILE$/, '')))
      if (rest.length === Object.keys(left).length) return undefined
      left = Object.fromEntries(rest)
    }
  }
}

function problemsIn(error: unknown): readonly string[] {
  if (error instanceof EnvError) return error.problems
  throw error
}

/** Faults of single variables. */
export const variableChecks: Checks<Reading> = {
  'unused-variable': ({ unused }) =>
    unused.map((variable) => {
      const bare = variable.replace(/^(?:AUTH|RELAY|VAULT)_/, '')
      const remedy = bare === variable ? `AUTH_${bare}=…, RELAY_${bare}=…, VAULT_${bare}=…` : bare
      return note(true, `${variable} has no effect`, remedy)
    }),
  'misspelt-variable': ({ misspelt }) =>
    misspelt.map(({ variable, known }) => change(true, `${variable} is unknown`, `${known}=…`)),
  'invalid-variable': ({ problems }) =>
    problems.map((problem) => {
      const [variable = '', received = ''] = problem.split(/: (.*)/s)
      const [, remedy = received] = received.split(/; (.*)/s)
      return change(true, problem, `${variable}=… (${remedy})`)
    })
}

/** Faults of a server that show without a request. */
export async function checkPlan(plan: Plan): Promise<Finding[]> {
  const { env, url, urlVariable } = plan
  const address = url && { url, usesCookies: env.USE_COOKIES === true, urlVariable }
  const findings = await Promise.all([
    examine(planChecks, plan),
    ...(address === undefined ? [] : [examine(addressChecks, address)]),
    ...(url === undefined ? [] : pagesOf(plan, url)).map((page) => examine(namedPageChecks, page))
  ])
  return findings.flat()
}

const planChecks: Checks<Plan> = {
  'weak-secret': ({ env: { CHALLENGE_SECRET: secret } }) =>
    change(secret !== undefined && isWeak(secret), 'CHALLENGE_SECRET can be guessed', newOne('CHALLENGE_SECRET')),
  'weak-key': ({ env }) => {
    const isKnown = PUBLISHED_KEYS.has(digitsOf(env)) || /^0{32}|^(..)\1+$/.test(digitsOf(env))
    return change(isKnown, 'PRIVATE_KEY is known or can be guessed', newOne('PRIVATE_KEY'))
  },
  'one-secret': ({ env }) => {
    const isOne = digitsOf(env) === env.CHALLENGE_SECRET?.toLowerCase()
    return change(isOne, 'PRIVATE_KEY and CHALLENGE_SECRET are the same', newOne('CHALLENGE_SECRET'))
  },
  'data-folder': ({ env: { DATA_DIR: folder } }) =>
    change(existsSync(folder) && !isWritable(folder), `DATA_DIR ${folder} cannot be written`, `chown … ${folder}`),
  'secret-file': ({ env }) =>
    Object.entries({ 'private-key': env.PRIVATE_KEY, 'challenge-secret': env.CHALLENGE_SECRET }).map(
      ([name, value]) => {
        const file = join(env.DATA_DIR, name)
        const { mode = 0 } = (value === undefined && statSync(file, { throwIfNoEntry: false })) || {}
        const isOpen = process.platform !== 'win32' && (mode & 0o077) !== 0
        return change(isOpen, `${file} is accessible to other users`, `chmod 600 ${file}`)
      }
    ),
  'ipfs-package': ({ env: { name, IPFS_API_URL: url } }) => {
    try {
      if (url !== undefined && name !== 'auth') assertIpfsClientInstalled()
      return undefined
    } catch (error) {
      return change(true, error instanceof Error ? error.message : String(error), 'npm install ipfs-http-client@60')
    }
  },
  'service-url': ({ env: { SERVICE_URL: text, HOST: host }, url, urlVariable: name }) => {
    if (url === undefined)
      return change(true, `${name} ${text ?? ''} is not an http(s) URL`, `${name}=https://${text ?? ''}`)
    const isAssumed = text === undefined && !/^(?:localhost|127\..*|::1)$/.test(host)
    return change(isAssumed, `HOST is ${host}, and ${name} is not set`, `${name}=https://<host that users see>`)
  },
  'trust-proxy': ({ env, url }) => {
    const what = `${url?.origin ?? ''} is https, so a proxy is in front, and TRUST_PROXY is off`
    return change(url?.protocol === 'https:' && env.TRUST_PROXY === false, what, 'TRUST_PROXY=1')
  },
  'trust-proxy/all': ({ env }) =>
    note(env.TRUST_PROXY === true, 'TRUST_PROXY trusts every proxy', 'TRUST_PROXY=1 (the number of proxies)'),
  'demo-page': ({ env: { PAGE: isOn, name }, url }) => {
    const isShown = isOn && name === 'auth' && url !== undefined && !isLoopbackHost(url.hostname)
    return note(isShown, `${url?.origin ?? ''} shows the demo page`, 'PAGE=false')
  },
  'login-domains/many': ({ loginDomains: { length } }) => {
    const what = `${length} login domains instead of at most ${MAX_LOGIN_DOMAINS}`
    return change(length > MAX_LOGIN_DOMAINS, what, 'LOGIN_DOMAINS=…')
  }
}

const digitsOf = ({ PRIVATE_KEY: key = '' }: ServerEnv): string => key.replace(/^0x/, '').toLowerCase()

/** The line that sets a secret. */
export const newOne = (variable: string): string => `${variable}=… (\`${ownCommand('keys new')}\` makes one)`

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Pages of other origins that the environment names, with the origins that may read answers. */
function pagesOf({ env, loginDomains }: Plan, url: URL): NamedPage[] {
  const { TRUSTED_ORIGINS: trusted, CORS_ORIGINS: readable, LOGIN_DOMAINS: domains = [] } = env
  const usesCookies = env.USE_COOKIES === true
  const origins = [...new Set([...trusted, ...readable])].filter((origin) => origin !== url.origin)
  return origins.map((origin) => {
    const { host } = new URL(origin)
    const lines = {
      trustedOrigins: `TRUSTED_ORIGINS=${[...trusted, origin].join(',')}`,
      loginDomains: `LOGIN_DOMAINS=${[...domains, host].join(',')}`
    }
    const isTrusted = (): boolean => !usesCookies || trusted.includes(origin)
    const isLoginDomain = (): boolean => loginDomains.includes(host)
    return { origin, url, usesCookies, readable, isTrusted, isLoginDomain, lines }
  })
}

type NamedPage = Page & { readable: readonly string[] }

const namedPageChecks: Checks<NamedPage> = {
  'cors-origins': ({ origin, readable }) => {
    const line = `CORS_ORIGINS=${[...readable, origin].join(',')}`
    return note(!readable.includes(origin), `${origin} is not in CORS_ORIGINS`, line)
  },
  ...pageChecks
}

/** Words, repetitions, and less than so many bits by the frequency of the characters. */
export function isWeak(secret: string): boolean {
  const counts = new Map<string, number>()
  for (const character of secret) counts.set(character, (counts.get(character) ?? 0) + 1)
  const bits = [...counts.values()].reduce((sum, count) => sum - count * Math.log2(count / secret.length), 0)
  const isOfWords = /secret|passw|change.?me|example|123456|qwerty/i.test(secret)
  return bits < LEAST_SECRET_BITS || isOfWords || /^(.{1,16})\1+$/s.test(secret)
}
