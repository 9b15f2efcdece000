import { DidAuthError } from '../errors.js'
import type { AuthenticatedUser } from '../ports.js'
import { RESOURCE_TOKEN_SECONDS } from '../protocol/access-token.js'
import type { JsonObject } from '../protocol/json.js'
import type { Parts } from './parts.js'

/** Who the user is, how they signed, what logic added. @throws DidAuthError ERR_RESOURCE @see RFC 9068, section 2.2 */
export async function issueResourceToken(
  { settings, clock, random, resourceKeys }: Pick<Parts, 'settings' | 'clock' | 'random' | 'resourceKeys'>,
  { claims: { nbf: _nbf, use: _use, ctl: _ctl, ...kept } }: AuthenticatedUser,
  resource: unknown
): Promise<{ accessToken: string; expiresIn: number }> {
  const { resources, serviceUrl: iss } = settings
  if (typeof resource !== 'string' || !resources.includes(resource)) {
    throw new DidAuthError('ERR_RESOURCE', { reason: { check: 'resource', expected: resources, option: 'resources' } })
  }
  const iat = clock.nowSeconds()
  const times = { exp: iat + RESOURCE_TOKEN_SECONDS, iat }
  const own = { iss, aud: resource, client_id: iss, jti: random.id(16), ...times }
  const accessToken = await resourceKeys.sign({ ...(kept as JsonObject), ...own })
  return { accessToken, expiresIn: RESOURCE_TOKEN_SECONDS }
}
