import { es256kBy, es256kRecoverableBy, jwtByHand } from './credentials.js'
import type { TestWallet } from './wallet.js'

/** The payload of a login credential with nothing that published clients leave out. */
export function loginPayload(did: string, challenge: unknown): Record<string, unknown> & { vc: object } {
  return {
    iss: did,
    vc: {
      '@context': ['https://www.w3.org/2018/credentials/v1'],
      type: ['VerifiableCredential'],
      credentialSubject: { claims: [{ claimType: 'challenge', claimValue: challenge }] }
    }
  }
}

/** A login credential put together by hand. */
export function loginCredential(
  { did, privateKey }: Pick<TestWallet, 'did' | 'privateKey'>,
  challenge: unknown,
  changes: Record<string, unknown> = {},
  alg: 'ES256K' | 'ES256K-R' = 'ES256K'
): string {
  const sign = alg === 'ES256K' ? es256kBy(privateKey) : es256kRecoverableBy(privateKey)
  return jwtByHand({ alg, typ: 'JWT' }, { ...loginPayload(did, challenge), ...changes }, sign)
}
