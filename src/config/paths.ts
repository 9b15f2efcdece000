import { defaults, type Defaults, type GivenConfig } from './options.js'

/** The configurable routes; the last two are off unless they are set. */
export interface Paths {
  requestSignup: string
  signup: string
  requestAuth: string
  auth: string
  logout: string
  refreshToken: string
  session: string | undefined
  sessions: string | undefined
}

/**
 * Default paths of the routes that accept POST.
 *
 * @example
 * const reserved = new Set(Object.values(defaultPaths))
 */
export const defaultPaths = {
  requestSignup: defaults.requestSignupPath,
  signup: defaults.signupPath,
  requestAuth: defaults.requestAuthPath,
  auth: defaults.authPath,
  refreshToken: defaults.refreshTokenPath,
  logout: defaults.logoutPath
} as const satisfies Partial<Paths>

/** The routes of a configuration. */
export function pathsOf(config: Defaults & Pick<GivenConfig, 'sessionPath' | 'sessionsPath'>): Paths {
  return {
    requestSignup: config.requestSignupPath,
    signup: config.signupPath,
    requestAuth: config.requestAuthPath,
    auth: config.authPath,
    logout: config.logoutPath,
    refreshToken: config.refreshTokenPath,
    session: config.sessionPath,
    sessions: config.sessionsPath
  }
}
