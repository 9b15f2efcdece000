/** What the claims of an access token say. */
const ABOUT: Readonly<Record<string, string>> = {
  iss: 'who issued it: the service’s DID, whose key signed it',
  sub: 'whom it is for: your DID',
  aud: 'where it is good',
  jti: 'the token’s own id',
  sid: 'the session that it belongs to',
  use: 'an access token, and nothing else'
}

const TIMES: Readonly<Record<string, string>> = { iat: 'issued', nbf: 'good from', exp: 'good until' }

/**
 * The claims of a JWT, for showing. A page need not verify a token that its own server gave it.
 *
 * @returns undefined for what is no JWT
 */
export function claimsOf(token: string): Record<string, unknown> | undefined {
  const [, payload = ''] = token.split('.')
  try {
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (character) =>
      character.charCodeAt(0)
    )
    return parseObject(JSON.parse(new TextDecoder().decode(bytes)))
  } catch {
    return undefined
  }
}

/** A claim in words. Empty where the server added it. */
export function describeClaim(name: string, value: unknown): string {
  const time = TIMES[name]
  return time !== undefined && typeof value === 'number'
    ? `${time} ${new Date(value * 1_000).toLocaleTimeString()}`
    : (ABOUT[name] ?? 'a claim of this service')
}

function parseObject(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
}
