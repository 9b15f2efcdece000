import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { es256kSigner, memoryStore, setupDidAuth } from 'express-did-auth'
import { readEnv } from '../../../servers/config/read-env.js'
import { createDidAuthConfig, getMaxRequests, createSiweOptions } from '../../../servers/http/did-auth.js'
import { createServerLog } from '../../../servers/observability/logger.js'

const identity = { serviceDid: 'did:ethr:rsk:0x1', privateKey: '1'.repeat(64), challengeSecret: 's'.repeat(32) }

/** Creates the library's options from environment variables. */
function createOptions(variables: Record<string, string>, serviceUrl = 'https://auth.example') {
  const env = readEnv(variables, 'auth', false)
  const log = createServerLog(env, false, { write: () => undefined })
  const parts = { env, identity, serviceUrl, log, store: memoryStore() }
  return createDidAuthConfig(parts, () => Promise.resolve(''))
}

describe('createDidAuthConfig', () => {
  it('passes on the value of each variable that names an option, in the form of that option', () => {
    const variables = { USE_COOKIES: 'true', RPC_URL: 'https://rpc.example', REPLAY_PROTECTION: 'window' }
    const times = {
      TIME_SLOT_IN_SECONDS: '60',
      REFRESH_REUSE_GRACE_SECONDS: '0',
      USER_SESSION_DURATION_IN_HOURS: '0.5'
    }
    const set = { useCookies: true, rpcUrl: 'https://rpc.example', replayProtection: 'window' }
    const setTimes = { timeSlotInSeconds: 60, refreshReuseGraceSeconds: 0, userSessionDurationInHours: 0.5 }
    expect(createOptions({ ...variables, ...times })).toMatchObject({ ...set, ...setTimes })
  })

  it('passes on the options of sessions, domains, cookies and errors', () => {
    const variables = {
      LOGIN_DOMAINS: 'app.example,www.example',
      LOGIN_DIALECTS: 'url',
      NETWORKS: 'ethereum',
      COOKIE_PREFIX: '__Secure-',
      ABSOLUTE_SESSION_DURATION_IN_HOURS: '12',
      ERROR_FORMAT: 'problem'
    }
    expect(createOptions(variables)).toMatchObject({
      loginDomains: ['app.example', 'www.example'],
      loginDialects: ['url'],
      networks: [''],
      cookiePrefix: '__Secure-',
      absoluteSessionDurationInHours: 12,
      errorFormat: 'problem'
    })
  })

  it('leaves absent options to the defaults of the library', () =>
    expect(createOptions({})).toMatchObject({
      loginDomains: undefined,
      cookiePrefix: undefined,
      absoluteSessionDurationInHours: undefined,
      errorFormat: undefined
    }))

  it.each([
    ['https://auth.example', {}, 'accepted'],
    ['urn:auth', {}, 'off'],
    ['urn:auth', { TRUSTED_ORIGINS: 'https://app.example' }, 'accepted'],
    ['https://auth.example', { DEVICE_BINDING: 'required' }, 'required'],
    ['https://auth.example', { DEVICE_BINDING: 'off' }, 'off']
  ])('binds sessions to devices where proofs can name an origin: %s %j %s', (serviceUrl, variables, mode) => {
    expect(createOptions(variables, serviceUrl).deviceBinding).toBe(mode)
  })

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

describe('getMaxRequests', () =>
  it('returns 1,000 for relay and vault, undefined for auth, or the value of the variable', () => {
    const getLimit = (name: 'auth' | 'relay' | 'vault', variables = {}) =>
      getMaxRequests(readEnv(variables, name, false))
    expect([getLimit('auth'), getLimit('relay'), getLimit('vault')]).toEqual([undefined, 1_000, 1_000])
    expect(getLimit('relay', { MAX_REQUESTS_PER_TIME_SLOT: '3' })).toBe(3)
  }))

describe('createSiweOptions', () => {
  const createSiwe = (
    variables: Record<string, string>,
    serviceDid = identity.serviceDid,
    serviceUrl = 'https://a.example'
  ) => createSiweOptions({ env: readEnv(variables, 'auth', false), identity: { ...identity, serviceDid }, serviceUrl })
  const did = `did:ethr:rsk:0x${'1'.repeat(40)}`

  it('enables EIP-4361 on the network of the service, and disables it with SIWE=false', () => {
    expect(createSiwe({}, did)).toEqual({ path: '/siwe', network: 'rsk' })
    expect(createSiwe({ SIWE: 'false' }, did)).toBeUndefined()
  })

  it.each([
    ["the first of NETWORKS if it lacks the service's network", did, { NETWORKS: 'ethereum,0x89' }, ''],
    ['the network of the service in any letter case', did, { NETWORKS: 'ethereum,RSK' }, 'rsk'],
    [
      'NETWORK_NAME for a service with another DID method',
      'did:web:a.example',
      { NETWORK_NAME: 'rsk:testnet' },
      'rsk:testnet'
    ],
    ['rsk without NETWORK_NAME', 'did:web:a.example', {}, 'rsk'],
    ['the first of NETWORKS in preference to rsk', 'did:web:a.example', { NETWORKS: 'sepolia' }, 'sepolia']
  ])('chooses %s', (_what, serviceDid, variables, network) =>
    expect(createSiwe(variables, serviceDid)?.network).toBe(network)
  )

  it('disables EIP-4361 if no host of a page is known, unless SIWE is set', () => {
    expect(createSiwe({}, did, 'urn:service')).toBeUndefined()
    expect(createSiwe({ LOGIN_DOMAINS: 'https://app.example' }, did, 'urn:service')).toBeUndefined()
    expect(createSiwe({ LOGIN_DOMAINS: 'app.example' }, did, 'urn:service')).toBeDefined()
    expect(createSiwe({ SIWE: 'true' }, did, 'urn:service')).toBeDefined()
  })
})
