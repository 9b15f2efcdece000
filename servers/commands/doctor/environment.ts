import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ownCommand } from '../../config/own-command.js'
import {
  EnvError,
  findMisspellings,
  readEnv,
  readUnusedVariables,
  type ServerEnv,
  type ServerName
} from '../../config/read-env.js'
import { assertIpfsClientInstalled } from '../../ipfs/load-ipfs-client.js'
import { finding, isLoopback, unique, type Finding } from './finding.js'
import { pagesInEnvironment } from './pages.js'

type Variables = Readonly<Record<string, string | undefined>>

/** One server as the environment describes it. */
export interface Plan {
  env: ServerEnv
  /** Undefined where `SERVICE_URL` is none that a browser opens. */
  url: URL | undefined
}

/** Keys that are printed in the documents of development chains. */
const PUBLISHED_KEYS = new Set([
  'ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80',
  '59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
  '5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a'
])
const LEAST_SECRET_BITS = 100

/** Reads the environment of servers. What is wrong with it is a finding, so that the other checks go on. */
export function readPlans(env: Variables, names: readonly ServerName[], isAll: boolean): [Plan[], Finding[]] {
  const findings: Finding[] = readUnusedVariables(env, names, isAll).map((variable) =>
    finding(
      'unused-variable',
      'note',
      `${variable} has no effect`,
      isAll ? 'Under `all`, each server has its own.' : 'It counts under `all` only.',
      isAll ? `AUTH_${variable}=…, RELAY_${variable}=…, VAULT_${variable}=…` : variable.replace(/^[A-Z]+_/, '')
    )
  )
  const misspelt = findMisspellings(env)
  for (const { variable, known } of misspelt) {
    const why = 'No server reads it, and what it should set has its default.'
    findings.push(finding('misspelt-variable', 'change', `${variable} is unknown`, why, `${known}=…`))
  }
  const spelled = { ...env, ...Object.fromEntries(misspelt.map(({ variable }) => [variable, undefined])) }
  const plans = names.flatMap((name): Plan[] => {
    const [read, problems] = readValid(spelled, name, isAll)
    findings.push(...problems.map(invalid))
    if (read === undefined) return []
    const text = read.SERVICE_URL ?? `http://localhost:${read.address.port}`
    return [{ env: read, url: /^https?:/i.test(text) && URL.canParse(text) ? new URL(text) : undefined }]
  })
  return [plans, unique(findings)]
}

/** The environment of a server without what is wrong with it, and the problems. */
function readValid(env: Variables, name: ServerName, isAll: boolean): [ServerEnv | undefined, readonly string[]] {
  try {
    return [readEnv(env, name, isAll), []]
  } catch (error) {
    if (!(error instanceof EnvError)) throw error
    return [readRest(env, name, isAll), error.problems]
  }
}

function readRest(env: Variables, name: ServerName, isAll: boolean): ServerEnv | undefined {
  try {
    // What is missing for a server's identity is nothing that could be left out.
    return readEnv(env, name, isAll, 'operate')
  } catch (error) {
    if (!(error instanceof EnvError)) throw error
    // Each problem names its variable, and those that have the variable as their condition.
    const named = new Set(error.problems.flatMap((problem) => problem.match(/\b[A-Z][A-Z0-9_]+\b/g) ?? []))
    const left = Object.entries(env).filter(([one]) => !named.has(one) && !named.has(one.replace(/_FILE$/, '')))
    return left.length < Object.keys(env).length ? readRest(Object.fromEntries(left), name, isAll) : undefined
  }
}

/** `NAME: received "x"; remedy`. */
function invalid(problem: string): Finding {
  const [variable = '', received = ''] = problem.split(/: (.*)/s)
  const [, remedy = received] = received.split(/; (.*)/s)
  return finding(
    'invalid-variable',
    'change',
    problem,
    'The server does not start with it.',
    `${variable}=… (${remedy})`
  )
}

/** What can be told about a server without asking anything. */
export function checkPlan({ env, url }: Plan): Finding[] {
  return [
    ...secretFindings(env),
    ...folderFindings(env),
    ...packageFindings(env),
    ...(url === undefined ? [noUrl(env)] : [...addressFindings(env, url), ...pagesInEnvironment(env, url)])
  ]
}

function noUrl({ SERVICE_URL: text = '', address }: ServerEnv): Finding {
  const name = address.variable.replace('PORT', 'SERVICE_URL')
  const why = 'Clients cannot open it, and wallets show all of it instead of its host.'
  return finding('service-url', 'change', `${name} ${text} is no http(s) URL`, why, `${name}=https://${text}`)
}

function secretFindings({ PRIVATE_KEY: key, CHALLENGE_SECRET: secret }: ServerEnv): Finding[] {
  const remedy = (name: string) => `${name}=… (\`${ownCommand('keys new')}\` makes one)`
  const findings: Finding[] = []
  if (secret !== undefined && isWeak(secret)) {
    const why = 'An attacker who guesses it computes every challenge.'
    findings.push(finding('weak-secret', 'change', 'CHALLENGE_SECRET can be guessed', why, remedy('CHALLENGE_SECRET')))
  }
  const digits = key?.replace(/^0x/, '').toLowerCase()
  if (digits !== undefined && (PUBLISHED_KEYS.has(digits) || /^0{32}|^(..)\1+$/.test(digits))) {
    const why = 'An attacker who has it issues tokens for every user.'
    findings.push(finding('weak-key', 'change', 'PRIVATE_KEY is known or can be guessed', why, remedy('PRIVATE_KEY')))
  }
  if (digits !== undefined && digits === secret?.toLowerCase()) {
    const why = 'Each of the two is to be useless without the other.'
    findings.push(
      finding('one-secret', 'change', 'PRIVATE_KEY is CHALLENGE_SECRET as well', why, remedy('CHALLENGE_SECRET'))
    )
  }
  return findings
}

/** Words, repetitions, and less than so many bits by the frequency of the characters. */
export function isWeak(secret: string): boolean {
  const counts = new Map<string, number>()
  for (const character of secret) counts.set(character, (counts.get(character) ?? 0) + 1)
  const bits = [...counts.values()].reduce((sum, count) => sum - count * Math.log2(count / secret.length), 0)
  return (
    bits < LEAST_SECRET_BITS ||
    /secret|passw|change.?me|example|123456|qwerty/i.test(secret) ||
    /^(.{1,16})\1+$/s.test(secret)
  )
}

function folderFindings({ DATA_DIR: folder, PRIVATE_KEY: key, CHALLENGE_SECRET: secret }: ServerEnv): Finding[] {
  if (!existsSync(folder)) return []
  const findings: Finding[] = []
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch {
    const why = 'The server stores sessions and content there.'
    findings.push(finding('data-folder', 'change', `DATA_DIR ${folder} cannot be written`, why, `chown … ${folder}`))
  }
  const files = [key === undefined && 'private-key', secret === undefined && 'challenge-secret']
  for (const name of files) {
    const file = join(folder, name === false ? '' : name)
    if (name === false || process.platform === 'win32' || !existsSync(file)) continue
    if ((statSync(file).mode & 0o077) === 0) continue
    const why = 'Other users of this machine can read it.'
    findings.push(finding('secret-file', 'change', `${file} is not for its owner alone`, why, `chmod 600 ${file}`))
  }
  return findings
}

function packageFindings({ name, IPFS_API_URL: url }: ServerEnv): Finding[] {
  if (url === undefined || name === 'auth') return []
  try {
    assertIpfsClientInstalled()
    return []
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error)
    const change = 'npm install ipfs-http-client@60'
    return [finding('ipfs-package', 'change', what, 'Relay and vault do not start without it.', change)]
  }
}

function addressFindings(
  { name: server, HOST: host, SERVICE_URL: given, USE_COOKIES, TRUST_PROXY, PAGE, address }: ServerEnv,
  url: URL
): Finding[] {
  const findings: Finding[] = []
  const name = address.variable.replace('PORT', 'SERVICE_URL')
  if (given === undefined && !/^(?:localhost|127\..*|::1)$/.test(host)) {
    const why = 'Wallets would show localhost, and other services could not tell tokens of this one apart.'
    findings.push(
      finding('service-url', 'change', `HOST is ${host} without ${name}`, why, `${name}=https://<host that users see>`)
    )
  }
  if (url.protocol === 'http:' && !isLoopback(url)) {
    findings.push(insecure(url, USE_COOKIES === true, `${name}=https://${url.host}`))
  }
  if (url.protocol === 'https:' && TRUST_PROXY === false) {
    const what = `${url.origin} is https, so a proxy is in front, and TRUST_PROXY is off`
    const why = 'All users share the address of the proxy, and with it one budget of requests.'
    findings.push(finding('trust-proxy', 'change', what, why, 'TRUST_PROXY=1'))
  }
  if (PAGE && server === 'auth' && !isLoopback(url)) {
    const why = 'Every visitor of the root finds the page for trying out the servers.'
    findings.push(finding('demo-page', 'note', `${url.origin} shows the demo page`, why, 'PAGE=false'))
  }
  if (TRUST_PROXY === true) {
    const why = 'Every client chooses its own address in X-Forwarded-For, and escapes the limits.'
    findings.push(
      finding('trust-proxy', 'note', 'TRUST_PROXY trusts every proxy', why, 'TRUST_PROXY=1 (the number of proxies)')
    )
  }
  return findings
}

/** http outside this machine. */
export function insecure(url: URL, usesCookies: boolean, change: string): Finding {
  const why = usesCookies
    ? 'The cookies are Secure: browsers do not keep them over http, and no login lasts.'
    : 'Tokens can be read on the way, and used by others.'
  return finding(usesCookies ? 'cookies-over-http' : 'http', 'change', `${url.origin} is http`, why, change)
}
