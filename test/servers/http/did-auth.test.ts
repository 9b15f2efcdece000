import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { es256kSigner, memoryStore, setupDidAuth } from 'express-did-auth'
import { readEnv } from '../../../servers/config/read-env.js'
import { createDidAuthConfig, getMaxRequests, createSiweOptions } from '../../../servers/http/did-auth.js'
import { createServerLog } from '../../../servers/observability/logger.js'

const identity = { serviceDid: 'did:ethr:rsk:0x1', privateKey: '1'.repeat(64), challengeSecret: 's'.repeat(32) }

/** The options that an environment becomes. */
function optionsOf(variables: Record<string, string>) {
  const env = readEnv(variables, 'auth', false)
  const log = createServerLog(env, false, { write: () => undefined })
  const parts = { env, identity, serviceUrl: 'https://auth.example', log, store: memoryStore() }
  return createDidAuthConfig(parts, () => Promise.resolve(''))
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

  it('leaves them to the defaults of the library where they are absent', () =>
    expect(optionsOf({})).toMatchObject({
      loginDomains: undefined,
      cookiePrefix: undefined,
      absoluteSessionDurationInHours: undefined,
      errorFormat: undefined
    }))

  // Cause: the operator read the warning twice, once about the option and once about the variable.
  it('leaves the warning about a SERVICE_URL without a scheme to the server, and passes others on', async () => {
    const serviceUrl = 'localhost:3000'
    const variables = { SERVICE_URL: serviceUrl, ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '901' }
    const env = readEnv(variables, 'auth', false)
    const messages: unknown[] = []
    const write = (line: string): void => void messages.push(JSON.parse(line).msg)
    const log = createServerLog(env, false, { write })
    const serviceDid = `did:ethr:rsk:0x${'1'.repeat(40)}`
    const parts = { env, identity: { ...identity, serviceDid }, serviceUrl, log, store: memoryStore() }
    const requireDid = setupDidAuth(express(), createDidAuthConfig(parts, es256kSigner(identity.privateKey)))
    await requireDid.close()
    expect(messages).toEqual([expect.stringMatching(/^access tokens /)])
  })
})

describe('maxRequestsOf', () =>
  it('is 1,000 at relay and vault, and left to the library at auth, unless the variable says it', () => {
    const of = (name: 'auth' | 'relay' | 'vault', variables = {}) => getMaxRequests(readEnv(variables, name, false))
    expect([of('auth'), of('relay'), of('vault')]).toEqual([undefined, 1_000, 1_000])
    expect(of('relay', { MAX_REQUESTS_PER_TIME_SLOT: '3' })).toBe(3)
  }))

describe('siweOf', () => {
  const optionsFor = (
    variables: Record<string, string>,
    serviceDid = identity.serviceDid,
    serviceUrl = 'https://a.example'
  ) => createSiweOptions({ env: readEnv(variables, 'auth', false), identity: { ...identity, serviceDid }, serviceUrl })
  const did = `did:ethr:rsk:0x${'1'.repeat(40)}`

  it('is on with the network of the service, and off with SIWE=false', () => {
    expect(optionsFor({}, did)).toEqual({ path: '/siwe', network: 'rsk' })
    expect(optionsFor({ SIWE: 'false' }, did)).toBeUndefined()
  })

  it.each([
    ['the first accepted network, where that of the service is none', did, { NETWORKS: 'ethereum,0x89' }, ''],
    ['the network of the service in any letter case', did, { NETWORKS: 'ethereum,RSK' }, 'rsk'],
    [
      'NETWORK_NAME for a service of another method',
      'did:web:a.example',
      { NETWORK_NAME: 'rsk:testnet' },
      'rsk:testnet'
    ],
    ['rsk without it', 'did:web:a.example', {}, 'rsk'],
    ['an accepted network before that', 'did:web:a.example', { NETWORKS: 'sepolia' }, 'sepolia']
  ])('takes %s', (_what, serviceDid, variables, network) =>
    expect(optionsFor(variables, serviceDid)?.network).toBe(network)
  )

  it('is off where no host of a page is known, unless SIWE is set: setup then names what is missing', () => {
    expect(optionsFor({}, did, 'urn:service')).toBeUndefined()
    expect(optionsFor({ LOGIN_DOMAINS: 'https://app.example' }, did, 'urn:service')).toBeUndefined()
    expect(optionsFor({ LOGIN_DOMAINS: 'app.example' }, did, 'urn:service')).toBeDefined()
    expect(optionsFor({ SIWE: 'true' }, did, 'urn:service')).toBeDefined()
  })
})
