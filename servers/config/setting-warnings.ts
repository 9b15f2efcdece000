import { addScheme, parseHttpUrl } from 'express-did-auth/server-kit'
import type { ServerEnv } from './read-env.js'

/** Warning about a setting that is valid but probably a mistake. */
export interface SettingWarning {
  id: 'service-url' | 'trust-proxy/all' | 'machine-dids' | 'machine-dids/unused'
  variable: string
  /** The problem, in a sentence without a full stop. */
  problem: string
  /** The line to set instead. */
  remedy: string
}

/** Finds settings that are valid but probably a mistake. The server starts and logs a warning for each. */
export function findSettingWarnings(env: ServerEnv): SettingWarning[] {
  const { name, address, SERVICE_URL: url, TRUST_PROXY: trusted } = env
  const warnings: SettingWarning[] = []
  if (url !== undefined && parseHttpUrl(url) === undefined) {
    const variable = address.variable.replace('PORT', 'SERVICE_URL')
    const remedy = `${variable}=${addScheme(url)}`
    warnings.push({ id: 'service-url', variable, problem: `${variable} ${url} is not an http(s) URL`, remedy })
  }
  if (trusted === true) {
    const problem = 'TRUST_PROXY=true lets every client choose its own address'
    const remedy = 'TRUST_PROXY=1 (the number of proxies)'
    warnings.push({ id: 'trust-proxy/all', variable: 'TRUST_PROXY', problem, remedy })
  }
  if (name === 'auth' && env.MACHINE_LOGIN && env.MACHINE_DIDS === undefined) {
    const problem = 'MACHINE_LOGIN=true without MACHINE_DIDS gives every DID tokens'
    const remedy = 'MACHINE_DIDS=<the DIDs of your machines, separated by commas>'
    warnings.push({ id: 'machine-dids', variable: 'MACHINE_DIDS', problem, remedy })
  }
  if (name === 'auth' && !env.MACHINE_LOGIN && env.MACHINE_DIDS !== undefined) {
    const problem = 'MACHINE_DIDS has no effect without MACHINE_LOGIN=true'
    warnings.push({ id: 'machine-dids/unused', variable: 'MACHINE_DIDS', problem, remedy: 'MACHINE_LOGIN=true' })
  }
  return warnings
}
