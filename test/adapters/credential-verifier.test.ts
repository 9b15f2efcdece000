import { beforeAll, describe, expect, it } from '@jest/globals'
import { SigningKey } from 'ethers/crypto'
import {
  createCredentialVerifier,
  createIssuerSignatureCheck,
  type CredentialVerifierParts,
  type IssuerSignatureParts
} from '../../src/adapters/credential-verifier.js'
import { loadCurve } from '../../src/adapters/curve.js'
import { type IssuerKey, parseIssuerKey } from '../../src/adapters/did-document.js'
import { DidAuthError } from '../../src/errors.js'
import type { Client, CredentialClient, CredentialVerifier, Deadline } from '../../src/ports.js'
import type { Curve } from '../../src/protocol/curve.js'
import { within } from '../../src/time.js'
import {
  createCredentialJwt,
  createCredentialPayload,
  ed25519Key,
  es256kBy,
  es256kRecoverableBy,
  jwtByHand,
  p256Key,
  type SignPart,
  type TestKey
} from '../support/fixtures/credentials.js'
import { catchCode, refusal, createThrowing } from '../support/fixtures/refusal.js'
import { signerAddresses } from '../../src/protocol/credential.js'
import { parseJwt } from '../../src/protocol/jwt.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const user = createNumberedWallet(1)
const issuer = createNumberedWallet(6101)
const validJwt = createCredentialJwt(issuer, user.did)
const forged = createCredentialJwt({ did: issuer.did, privateKey: createNumberedWallet(6102).privateKey }, user.did)

const SECP256K1_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const network: Client = { network: '203.0.113.7', isGone: () => false }

type Parts = IssuerSignatureParts & Pick<CredentialVerifierParts, 'isTrustedIssuer'>

const createVerifier = (parts: Parts): CredentialVerifier =>
  createCredentialVerifier({ isSigned: createIssuerSignatureCheck(parts), isTrustedIssuer: parts.isTrustedIssuer })

interface Counted {
  verify(jwts: string[]): Promise<unknown>
  /** Requested schedulers, in order. */
  waiting: { admit: () => void; client: Client }[]
  recoveries(): number
  /** Keys that were charged to the client. */
  counts: { charged: number }
  client: CredentialClient
  /** Issuers whose keys were requested. */
  asked: string[]
}

/** Creates a verifier whose scheduler the test controls. */
async function createCountedVerifier(
  keys: (did: string) => IssuerKey[],
  options: Partial<Parts> = {}
): Promise<Counted> {
  const curve = await loadCurve()
  const waiting: Counted['waiting'] = []
  const asked: string[] = []
  let recoveries = 0
  const counts = { charged: 0 }
  const client: CredentialClient = {
    ...network,
    async chargeKey() {
      counts.charged += 1
    }
  }
  const recover: Curve['recover'] = (...args) => {
    recoveries += 1
    return curve.recover(...args)
  }
  const verifier = createVerifier({
    curve: { ...curve, recover },
    scheduler: { yield: (client) => new Promise((admit) => waiting.push({ admit, client })) },
    issuerKeys: {
      keysOf: async (did) => {
        asked.push(did)
        return keys(did).map((key, at) => ({ id: `${did}#${String(at)}`, ...key }))
      }
    },
    provesByAddress: false,
    ...options
  })
  return {
    verify: (jwts) => verifier.verify(jwts, { did: user.did, client }, START_SECONDS),
    waiting,
    recoveries: () => recoveries,
    counts,
    client,
    asked
  }
}

const round = (): Promise<void> => new Promise(setImmediate)
const addressKey = (address: string): IssuerKey => ({ kind: 'address', hex: address.slice(2).toLowerCase() })
const resolveIssuerKey = (): IssuerKey[] => [addressKey(issuer.address)]
const p256 = (key: TestKey): IssuerKey => parseIssuerKey({ publicKeyJwk: key.publicKeyJwk })!

describe('createCredentialVerifier', () => {
  it('computes nothing before its turn, and takes one turn per credential of an address', async () => {
    const { verify, waiting, recoveries, client } = await createCountedVerifier(resolveIssuerKey)
    const verified = verify([validJwt, validJwt, validJwt])
    for (const turn of [1, 2, 3]) {
      await round()
      expect([waiting.length, recoveries()]).toEqual([turn, 2 * (turn - 1)])
      expect(waiting[turn - 1]?.client).toBe(client)
      waiting[turn - 1]?.admit()
    }
    expect(await verified).toHaveLength(3)
    expect([waiting.length, recoveries()]).toEqual([3, 6])
  })

  it('accepts high s without a recovery byte, which fits two keys, and returns low s', async () => {
    const { verify } = await createCountedVerifier(resolveIssuerKey, { scheduler: { yield: async () => undefined } })
    const end = validJwt.lastIndexOf('.') + 1
    const low = Buffer.from(validJwt.slice(end), 'base64url')
    const otherS = (SECP256K1_ORDER - BigInt(`0x${low.toString('hex', 32)}`)).toString(16).padStart(64, '0')
    const high = validJwt.slice(0, end) + Buffer.from(low.toString('hex', 0, 32) + otherS, 'hex').toString('base64url')
    expect(high).not.toBe(validJwt)
    expect(await verify([high])).toMatchObject([{ jwt: validJwt, issuer: issuer.did }])
    const other = await createCountedVerifier(() => [addressKey(user.address)], {
      scheduler: { yield: async () => undefined }
    })
    await expect(other.verify([high])).rejects.toEqual(refusal('ERR_CREDENTIAL'))
  })

  it('takes one turn for an issuer of 100 addresses: the signature identifies the key', async () => {
    const others = Array.from({ length: 99 }, (_, number) => addressKey(`0x${String(number).padStart(40, '0')}`))
    const { verify, waiting, recoveries, counts } = await createCountedVerifier(() => [
      ...others,
      ...resolveIssuerKey()
    ])
    const verified = verify([validJwt])
    await round()
    waiting[0]?.admit()
    expect(await verified).toHaveLength(1)
    expect([waiting.length, recoveries(), counts.charged]).toEqual([1, 2, 1])
  })

  // Cause: one turn per credential allowed ten verifications in JavaScript.
  it('takes a turn for each P-256 key that it tries, at most 3, and charges each to the client', async () => {
    const key = p256Key()
    const did = 'did:web:issuer.example'
    const jwt = jwtByHand({ alg: 'ES256' }, createCredentialPayload(did, user.did), key.sign)
    const wrongKey = p256(p256Key())
    for (const [count, isTried] of [
      [2, true],
      [3, false],
      [99, false]
    ] as const) {
      const { verify, waiting, counts } = await createCountedVerifier(() => [
        ...Array<IssuerKey>(count).fill(wrongKey),
        p256(key)
      ])
      const outcome = catchCode(verify([jwt]))
      for (let turn = 1; turn <= 3; turn += 1) {
        await round()
        expect(waiting).toHaveLength(turn)
        waiting[turn - 1]?.admit()
      }
      expect(await outcome).toBe(isTried ? undefined : 'ERR_CREDENTIAL')
      expect([waiting.length, counts.charged]).toEqual([3, 3])
    }
  })

  it.each(['#70', 'did:web:issuer.example#70'])(
    'tries the key that the credential names first: kid %s',
    async (kid) => {
      const key = p256Key()
      const did = 'did:web:issuer.example'
      const jwt = jwtByHand({ alg: 'ES256', kid }, createCredentialPayload(did, user.did), key.sign)
      const keys = Array.from({ length: 100 }, (_, at) => p256(at === 70 ? key : p256Key()))
      const { verify, waiting, counts } = await createCountedVerifier(() => keys)
      const verified = verify([jwt])
      await round()
      waiting[0]?.admit()
      expect(await verified).toHaveLength(1)
      expect(counts.charged).toBe(1)
    }
  )

  it('computes nothing if the budget of the client is used up', async () => {
    const { verify, waiting, client } = await createCountedVerifier(resolveIssuerKey)
    client.chargeKey = () => Promise.reject(new DidAuthError('ERR_TOO_MANY_REQUESTS'))
    await expect(verify([validJwt])).rejects.toMatchObject({ code: 'ERR_TOO_MANY_REQUESTS' })
    expect(waiting).toEqual([])
  })

  it('takes no turn if no key of the issuer supports the algorithm', async () => {
    const { verify, waiting } = await createCountedVerifier(() => [p256(p256Key()), p256(ed25519Key())])
    await expect(verify([validJwt])).rejects.toMatchObject({ code: 'ERR_CREDENTIAL' })
    expect(waiting).toEqual([])
  })

  it('stops at the first invalid signature', async () => {
    const { verify, waiting, recoveries, asked } = await createCountedVerifier(resolveIssuerKey)
    const verified = verify([forged, validJwt, forged])
    await round()
    waiting[0]?.admit()
    await expect(verified).rejects.toMatchObject({ code: 'ERR_CREDENTIAL' })
    await round()
    expect([waiting.length, recoveries(), asked.length]).toEqual([1, 2, 1])
  })

  // Cause: all issuers were resolved at once, before any signature was checked.
  it('fetches the keys of an issuer only after the credentials before it are verified', async () => {
    const second = createNumberedWallet(6103)
    const { verify, waiting, asked } = await createCountedVerifier((did) =>
      did === issuer.did ? resolveIssuerKey() : [addressKey(second.address)]
    )
    const verified = verify([validJwt, createCredentialJwt(second, user.did)])
    await round()
    expect(asked).toEqual([issuer.did])
    waiting[0]?.admit()
    await round()
    expect(asked).toEqual([issuer.did, second.did])
    waiting[1]?.admit()
    expect(await verified).toHaveLength(2)
  })

  it('fetches no keys if a later credential has expired', async () => {
    const { verify, asked } = await createCountedVerifier(resolveIssuerKey)
    const expired = createCredentialJwt(issuer, user.did, { exp: START_SECONDS })
    await expect(verify([validJwt, expired])).rejects.toMatchObject({ code: 'ERR_CREDENTIAL_EXPIRED' })
    expect(asked).toEqual([])
  })

  it('passes ERR_BUSY on if too many tasks wait', async () => {
    const { verify } = await createCountedVerifier(resolveIssuerKey, {
      scheduler: { yield: () => Promise.reject(new DidAuthError('ERR_BUSY')) }
    })
    await expect(verify([validJwt])).rejects.toMatchObject({ code: 'ERR_BUSY' })
  })
})

describe('createCredentialVerifier with isTrustedIssuer', () => {
  // Cause: the time limit of the whole verification ended first, and blamed a resolver that was never called.
  it.each([
    ['trustedIssuers', { isTrustedIssuer: () => new Promise(() => undefined) }, 'ERR_BUSINESS_LOGIC_TIMEOUT'],
    ['the issuers', { issuerKeys: { keysOf: () => new Promise<never>(() => undefined) } }, 'ERR_RESOLVER']
  ] as const)('names %s if they use up the time of a request', async (_name, options, code) => {
    const verifier = createVerifier({
      curve: await loadCurve(),
      scheduler: { yield: () => Promise.resolve() },
      issuerKeys: { keysOf: async () => [] },
      provesByAddress: false,
      ...options
    })
    const client = { ...network, chargeKey: () => Promise.resolve() }
    const deadline: Deadline = { within: (_seconds, work, expired) => within(20, work(), expired) }
    await expect(verifier.verify([validJwt], { did: user.did, client }, START_SECONDS, deadline)).rejects.toEqual(
      refusal(code)
    )
  })

  const second = createNumberedWallet(6103)
  const bySecond = createCredentialJwt(second, user.did)

  it.each([
    ['by a value', (did: string) => did === issuer.did],
    ['by a promise', (did: string) => Promise.resolve(did === issuer.did)]
  ])('refuses an issuer that is not trusted %s, before it resolves a DID', async (_name, isTrustedIssuer) => {
    const { verify, asked, waiting } = await createCountedVerifier(resolveIssuerKey, { isTrustedIssuer })
    await expect(verify([validJwt, bySecond])).rejects.toMatchObject({ code: 'ERR_CREDENTIAL_ISSUER' })
    expect([asked, waiting]).toEqual([[], []])
  })

  it('accepts trusted issuers, and checks each once, in the spelling of the credential', async () => {
    const asked: string[] = []
    const isTrustedIssuer = (did: string): boolean => asked.push(did) > 0
    const { verify, waiting } = await createCountedVerifier(resolveIssuerKey, { isTrustedIssuer })
    const spelled = { ...issuer, did: `did:ethr:rsk:${issuer.address}` }
    const verified = verify([validJwt, validJwt, createCredentialJwt(spelled, user.did)])
    for (let turn = 0; turn < 3; turn += 1) {
      await round()
      waiting[turn]?.admit()
    }
    expect(await verified).toHaveLength(3)
    expect(asked).toEqual([issuer.did, spelled.did])
  })

  it('also checks an issuer that its address proves', async () => {
    const { verify } = await createCountedVerifier(resolveIssuerKey, {
      isTrustedIssuer: () => false,
      provesByAddress: true
    })
    await expect(verify([validJwt])).rejects.toMatchObject({ code: 'ERR_CREDENTIAL_ISSUER' })
  })

  it('rejects with the error that the function throws', async () => {
    const isTrustedIssuer = createThrowing(new TypeError('no list'))
    const { verify, asked } = await createCountedVerifier(resolveIssuerKey, { isTrustedIssuer })
    await expect(verify([validJwt])).rejects.toThrow(new TypeError('no list'))
    expect(asked).toEqual([])
  })
})

describe('createCredentialVerifier without a network', () => {
  const key = SigningKey.computePublicKey(issuer.privateKey, true)
  const byKey = { ...issuer, did: `did:ethr:rsk:${key}` }

  async function verdictOn(jwt: string): Promise<unknown> {
    const { verify, waiting, asked } = await createCountedVerifier(() => [], { provesByAddress: true })
    const outcome = catchCode(verify([jwt]))
    await round()
    waiting[0]?.admit()
    expect(asked).toEqual([])
    return outcome
  }

  it('proves a did:ethr of a public key by the address of that key', async () => {
    expect(await verdictOn(createCredentialJwt(byKey, user.did))).toBeUndefined()
    expect(await verdictOn(createCredentialJwt({ ...createNumberedWallet(6102), did: byKey.did }, user.did))).toBe(
      'ERR_CREDENTIAL'
    )
  })

  it('does not prove a DID whose public key is not on the curve', async () => {
    const did = `did:ethr:rsk:0x02${'f'.repeat(64)}`
    expect(await verdictOn(createCredentialJwt({ ...issuer, did }, user.did))).toBe('ERR_CREDENTIAL_ISSUER')
  })
})

const { privateKey, address } = createNumberedWallet(9100)

let curve: Curve

beforeAll(async () => {
  curve = await loadCurve()
})

const recoverAddresses = (alg: string, sign: SignPart): string[] =>
  signerAddresses(curve, parseJwt(jwtByHand({ alg }, { hello: 'world' }, sign), 1_000)!)

describe('signerAddresses', () => {
  it("returns two for ES256K, including the signer's", () => {
    const addresses = recoverAddresses('ES256K', es256kBy(privateKey))
    expect(addresses).toHaveLength(2)
    expect(addresses).toContain(address.toLowerCase())
  })

  it("returns only the signer's for ES256K-R", () =>
    expect(recoverAddresses('ES256K-R', es256kRecoverableBy(privateKey))).toEqual([address.toLowerCase()]))

  it.each([
    ['another algorithm', 'EdDSA', es256kBy(privateKey)],
    ['ES256K over 65 bytes', 'ES256K', es256kRecoverableBy(privateKey)],
    ['ES256K-R over 64 bytes', 'ES256K-R', es256kBy(privateKey)],
    [
      'ES256K-R that ends on 2',
      'ES256K-R',
      (input: string) => Buffer.concat([es256kBy(privateKey)(input), Buffer.of(2)])
    ],
    [
      'ES256K-R that ends on 27',
      'ES256K-R',
      (input: string) => Buffer.concat([es256kBy(privateKey)(input), Buffer.of(27)])
    ],
    ['zeros', 'ES256K', () => Buffer.alloc(64)],
    ['r and s above the order', 'ES256K', () => Buffer.alloc(64, 0xff)]
  ])('returns none for %s', (_name, alg, sign) => expect(recoverAddresses(alg, sign)).toEqual([]))
})
