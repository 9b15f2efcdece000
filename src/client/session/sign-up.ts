import { signUpMessage } from '../../protocol/login-message.js'
import { PROTOCOL } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { isText, isWord, parseFields } from '../wire/json.js'
import type { DisclosureRequest, Setting, SignUpOptions } from './options.js'
import { ask, readRequiredText, readText } from '../wire/request.js'
import { decodeJwt } from '../wire/jwt.js'
import { signIn, type SignedIn } from './sign-in.js'

/** Signs up. The client loads this module on demand, because most users of a page have already signed up. */
export function signUp(setting: Setting, options: SignUpOptions): Promise<SignedIn> {
  const { signup = '/signup', requestSignup: path = '/request-signup' } = setting.paths
  return signIn(setting, signup, options, async (did) => {
    const answer = await ask(setting, { path, body: { did }, signal: options.signal })
    const sdr = readText(answer, 'sdr')
    const picked = sdr ? await options.onDisclosure?.(parseDisclosureRequest(sdr)) : undefined
    const { credentials = [], claims = [] } = picked ?? options
    return [
      signUpMessage(setting.loginDomain, readRequiredText(answer, 'challenge', isWord), credentials),
      { credentials, claims }
    ]
  })
}

function parseDisclosureRequest(jwt: string): DisclosureRequest {
  const { issuer, credentials, claims } = parseFields(decodeJwt(jwt))
  if (!isText(issuer) || !Array.isArray(credentials) || !Array.isArray(claims)) {
    throw new DidAuthClientError(PROTOCOL)
  }
  return { issuer, credentials, claims, jwt }
}
