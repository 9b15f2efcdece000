import { es256kBy, es256kRecoverableBy, jwtByHand } from '../fixtures/credentials.js'
import { ask, post, type Answer } from './server-client.js'
import { type TestWallet } from '../fixtures/fixtures.js'

/** Returns a credential that is valid for one login at a running relay. */
export async function relayCredential(url: string, wallet: TestWallet): Promise<string> {
  const { status, text } = await post(`${url}/request-auth`, { did: wallet.did })
  if (status !== 200) throw new Error(`challenge: ${status} ${text}`)
  return loginCredential(wallet, (JSON.parse(text) as { challenge: string }).challenge)
}

/** Logs in a wallet at a running relay, and returns its token. */
export async function relayLogIn(url: string, wallet: TestWallet): Promise<string> {
  const { status, text } = await post(`${url}/auth`, { jwt: await relayCredential(url, wallet) })
  if (status !== 200) throw new Error(`login: ${status} ${text}`)
  return (JSON.parse(text) as { token: string }).token
}

/** Posts a file, and returns its CID. */
export async function relayPost(url: string, token: string, file: string): Promise<string> {
  const { status, text } = await post(`${url}/file`, { file }, { Authorization: token })
  if (status !== 200) throw new Error(`post: ${status} ${text}`)
  return (JSON.parse(text) as { cid: string }).cid
}

export function relayGet(url: string, token: string, cid: string): Promise<Answer> {
  return ask(`${url}/file/${cid}`, { headers: { Authorization: token } })
}

/** Returns the payload of a login credential, with only the fields that all published clients send. */
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

/** Builds a login credential without a library. */
export function loginCredential(
  { did, privateKey }: Pick<TestWallet, 'did' | 'privateKey'>,
  challenge: unknown,
  changes: Record<string, unknown> = {},
  alg: 'ES256K' | 'ES256K-R' = 'ES256K'
): string {
  const sign = alg === 'ES256K' ? es256kBy(privateKey) : es256kRecoverableBy(privateKey)
  return jwtByHand({ alg, typ: 'JWT' }, { ...loginPayload(did, challenge), ...changes }, sign)
}
