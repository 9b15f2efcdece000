import type * as didJwt from 'did-jwt'
import { encodeBase64url } from '../protocol/encode-base64url.js'
import type { JsonObject } from '../protocol/json.js'

let loading: Promise<typeof didJwt> | undefined

/**
 * Issues a payload as ES256K JWT, by did-jwt. It is loaded with the first token, because its import takes as long as ours.
 *
 * did-jwt adds nothing: it would put the wall clock into an absent `iat`, and `issuer` replaces `iss`.
 *
 * @param sign - returns 64 bytes over its argument
 */
export async function issueJwt(
  payload: JsonObject & { iss: string; iat: number },
  sign: (data: string) => Promise<Uint8Array>
): Promise<string> {
  const { createJWT } = await (loading ??= import('did-jwt'))
  // did-jwt gives its signers text, also where their type has bytes as well.
  const signer = async (data: string | Uint8Array): Promise<string> => encodeBase64url(await sign(String(data)))
  return createJWT(payload, { issuer: payload.iss, signer }, { alg: 'ES256K', typ: 'JWT' })
}
