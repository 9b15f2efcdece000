import { isLoopbackHost, parseHttpUrl } from 'express-did-auth/server-kit'
import type { ServerEnv } from './read-env.js'

/** A setting that is valid and probably not meant. */
export interface SettingWarning {
  id: 'service-url' | 'trust-proxy/all'
  variable: string
  /** The setting, in a sentence without its end. */
  what: string
  /** The line to write instead. */
  remedy: string
}

/** Finds settings that a server starts with and that are probably not meant: each is worth a warning. */
export function findSettingWarnings({ address, SERVICE_URL: url, TRUST_PROXY: trusted }: ServerEnv): SettingWarning[] {
  const warnings: SettingWarning[] = []
  if (url !== undefined && parseHttpUrl(url) === undefined) {
    const variable = address.variable.replace('PORT', 'SERVICE_URL')
    const remedy = `${variable}=${suggestUrl(url)}`
    warnings.push({ id: 'service-url', variable, what: `${variable} ${url} is not an http(s) URL`, remedy })
  }
  if (trusted === true) {
    const [variable, what] = ['TRUST_PROXY', 'TRUST_PROXY=true lets every client choose its own address']
    warnings.push({ id: 'trust-proxy/all', variable, what, remedy: 'TRUST_PROXY=1 (the number of proxies)' })
  }
  return warnings
}

/** Puts the scheme in front that was probably left out. */
function suggestUrl(text: string): string {
  const host = parseHttpUrl(`http://${text}`)?.hostname ?? ''
  return `${isLoopbackHost(host) ? 'http' : 'https'}://${text}`
}
