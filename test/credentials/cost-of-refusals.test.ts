import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { credentialVerifier } from '../../src/adapters/credential-verifier.js'
import { loadCurve } from '../../src/adapters/curve.js'
import { DidAuthError } from '../../src/errors.js'
import type { Curve } from '../../src/protocol/curve.js'
import { authApp, signUpChallenge, START_SECONDS } from '../support/auth-app.js'
import { credentialJwt } from '../support/credentials.js'
import { loginText, walletOf } from '../support/wallet.js'

const user = walletOf(1)
const issuer = walletOf(6101)
const good = credentialJwt(issuer, user.did)
const forged = credentialJwt({ did: issuer.did, privateKey: walletOf(6102).privateKey }, user.did)

interface Counted {
  verify(jwts: string[]): Promise<unknown>
  /** Turns that were asked for and not given yet. */
  waiting: (() => void)[]
  recoveries(): number
  asked: string[]
}

/** A verifier whose turns the test gives. */
async function countedVerifier(keys: (did: string) => Record<string, unknown>[]): Promise<Counted> {
  const curve = await loadCurve()
  const waiting: (() => void)[] = []
  const asked: string[] = []
  let recoveries = 0
  const recover: Curve['recover'] = (...args) => {
    recoveries += 1
    return curve.recover(...args)
  }
  const verifier = credentialVerifier({
    curve: { ...curve, recover },
    turns: { take: () => new Promise((resolve) => waiting.push(resolve)) },
    issuerKeys: {
      keysOf: async (did) => {
        asked.push(did)
        return keys(did)
      }
    },
    provesByAddress: false
  })
  return {
    verify: (jwts) => verifier.verify(jwts, user.did, START_SECONDS),
    waiting,
    recoveries: () => recoveries,
    asked
  }
}

const round = (): Promise<void> => new Promise(setImmediate)
const keyOfIssuer = (): Record<string, unknown>[] => [{ ethereumAddress: issuer.address }]

describe('credentialVerifier', () => {
  it('computes nothing before its turn, and takes a turn for each credential', async () => {
    const { verify, waiting, recoveries } = await countedVerifier(keyOfIssuer)
    const verified = verify([good, good, good])
    for (const turn of [1, 2, 3]) {
      await round()
      expect([waiting.length, recoveries()]).toEqual([turn, 2 * (turn - 1)])
      waiting[turn - 1]?.()
    }
    expect(await verified).toHaveLength(3)
    expect([waiting.length, recoveries()]).toEqual([3, 6])
  })

  it('stops at the first bad signature', async () => {
    const { verify, waiting, recoveries } = await countedVerifier(keyOfIssuer)
    const verified = verify([forged, good, forged])
    await round()
    waiting[0]?.()
    await expect(verified).rejects.toMatchObject({ code: 'ERR_CREDENTIAL' })
    await round()
    expect([waiting.length, recoveries()]).toEqual([1, 2])
  })

  it('asks for the keys of all issuers before any turn', async () => {
    const second = walletOf(6103)
    const { verify, waiting, asked } = await countedVerifier((did) => (did === issuer.did ? [] : keyOfIssuer()))
    const verified = verify([good, credentialJwt(second, user.did)])
    await expect(verified).rejects.toMatchObject({ code: 'ERR_CREDENTIAL_ISSUER' })
    expect([asked, waiting.length]).toEqual([[issuer.did, second.did], 0])
  })

  it('passes on that too many wait', async () => {
    const curve = await loadCurve()
    const verifier = credentialVerifier({
      curve,
      turns: { take: () => Promise.reject(new DidAuthError('ERR_BUSY')) },
      issuerKeys: { keysOf: async () => keyOfIssuer() },
      provesByAddress: false
    })
    await expect(verifier.verify([good], user.did, START_SECONDS)).rejects.toMatchObject({ code: 'ERR_BUSY' })
  })
})

describe('POST /signup with one signed body, again and again', () => {
  const expired = credentialJwt(issuer, user.did, { exp: START_SECONDS - 1 })
  const unknown = credentialJwt({ did: 'did:web:issuer.example', privateKey: issuer.privateKey }, user.did)
  const away = { resolve: () => Promise.reject(new Error('away')) }

  it.each([
    ['a forged credential', forged, {}, 401, 'Invalid credential'],
    ['an expired credential', expired, {}, 401, 'Expired credential'],
    ['an issuer that nobody knows', unknown, {}, 401, 'Unproved credential issuer'],
    ['a resolver out of reach', good, { resolver: away }, 503, 'DID resolver unavailable, try again']
  ])(
    'with %s is 429 once 200 requests named the DID',
    async (_name, credential, config, status, text) => {
      const { app, requireDid } = await authApp(config)
      const challenge = await signUpChallenge(app, user.did)
      const sig = user.personalSign(`${loginText('service.example', challenge)}\nMy credentials are: ${credential}`)
      const server = app.listen(0)
      const send = () =>
        request(server)
          .post('/signup')
          .send({ did: user.did, sig, credentials: [credential] })
      // The challenge was the first.
      for (let number = 2; number <= 200; number += 1) await send().expect(status, text)
      await send().expect(429, 'Too many requests')
      server.close()
      await requireDid.close()
    },
    20_000
  )
})
