import { describe, expect, it } from '@jest/globals'
import { memoryStore } from 'express-did-auth'
import { readEnv } from '../../../servers/config/read-env.js'
import { didAuthConfig } from '../../../servers/http/did-auth.js'
import { jsonLog } from '../../../servers/observability/logger.js'

const identity = { serviceDid: 'did:ethr:rsk:0x1', privateKey: '1'.repeat(64), challengeSecret: 's'.repeat(32) }

/** The options that an environment becomes. */
function optionsOf(variables: Record<string, string>) {
  const env = readEnv(variables, 'auth', false)
  const log = jsonLog(env, { write: () => undefined })
  const parts = { env, identity, serviceUrl: 'https://auth.example', log, store: memoryStore() }
  return didAuthConfig(parts, () => Promise.resolve(''))
}

describe('didAuthConfig', () => {
  it('passes the options of sessions, domains, cookies and errors on', () => {
    const variables = {
      LOGIN_DOMAINS: 'app.example,www.example',
      LOGIN_DIALECTS: 'url',
      NETWORKS: 'ethereum',
      COOKIE_PREFIX: '__Secure-',
      ABSOLUTE_SESSION_DURATION_IN_HOURS: '12',
      ERROR_FORMAT: 'problem'
    }
    expect(optionsOf(variables)).toMatchObject({
      loginDomains: ['app.example', 'www.example'],
      loginDialects: ['url'],
      networks: [''],
      cookiePrefix: '__Secure-',
      absoluteSessionDurationInHours: 12,
      errorFormat: 'problem'
    })
  })

  it('leaves them to the defaults of the library where they are absent', () => {
    expect(optionsOf({})).toMatchObject({
      loginDomains: undefined,
      cookiePrefix: undefined,
      absoluteSessionDurationInHours: undefined,
      errorFormat: undefined
    })
  })
})
