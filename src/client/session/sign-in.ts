import { loginMessage } from '../../protocol/login-message.js'
import { isWord } from '../wire/json.js'
import { sendAsDevice } from './load-device-key.js'
import { runWithLock } from './lock.js'
import type { LogInOptions, Setting } from './options.js'
import { ask, isOutdated, readRequiredText, type Call } from '../wire/request.js'
import { connectWallet } from '../wallets/wallet.js'

/** Response to a login, and the DID of its user. */
export type SignedIn = { readonly body: unknown; readonly did: string }

/** Source of the challenges of logins, or of the nonces of EIP-4361, which are valid for any DID. */
export interface Challenges {
  /** Fetches the next challenge before the click. @throws DidAuthClientError as {@link ask} does */
  prepare(did: string, signal?: AbortSignal): Promise<void>
  /** Returns the prepared challenge while it is valid, else a new one. @throws as `prepare` does */
  next(did: string, signal?: AbortSignal): Promise<string>
}

/**
 * Creates the source of a service's challenges. It throws PROTOCOL for a challenge that is not one word of at most 256
 * characters.
 *
 * @param field - the name of the response field with the challenge
 */
export function createChallenges(setting: Setting, field: string, createCall: (did: string) => Call): Challenges {
  const { nowSeconds } = setting
  const request = async (did: string, signal?: AbortSignal) => {
    const answer = await ask(setting, { ...createCall(did), signal })
    const expiresIn = Number(answer.response.headers.get('Challenge-Expires-In') ?? Infinity)
    // `nowSeconds` is monotonic, so a change of the wall clock does not matter.
    return { did, text: readRequiredText(answer, field, isWord), validUntil: nowSeconds() + expiresIn }
  }
  let prepared: Awaited<ReturnType<typeof request>> | undefined
  return {
    async prepare(did, signal) {
      prepared = await request(did, signal)
    },
    async next(did, signal) {
      const unused = prepared
      prepared = undefined
      const isValid = unused?.did === did && unused.validUntil > nowSeconds()
      return (isValid ? unused : await request(did, signal)).text
    }
  }
}

/** Logs in by a challenge. */
export function logIn(setting: Setting, options: LogInOptions, challenges: Challenges): Promise<SignedIn> {
  return signIn(setting, setting.paths.auth, options, async (did) => [
    loginMessage(setting.loginDomain, await challenges.next(did, options.signal))
  ])
}

/** Gets a message signed and sends it. Retries once if the challenge expired while the wallet was open. */
export async function signIn(
  setting: Setting,
  path: string,
  { wallet, signal }: LogInOptions,
  prepare: (did: string) => Promise<[message: string, more?: object]>
): Promise<SignedIn> {
  const { did, signByKey } = await connectWallet(wallet, setting.network, signal)
  return retryStaleChallenge(async () => {
    const [message, more] = await prepare(did)
    const sig = await signByKey(message)
    return { body: await sendProof(setting, { path, body: { did, sig, ...more }, signal }, did), did }
  })
}

/** Exchanges a signature for a session. @param did - the user's DID, or only its address */
export function sendProof(setting: Setting, call: Call, did: string): Promise<unknown> {
  const send = () => sendAsDevice(setting, { did }, call)
  // The lock prevents a late response to a refresh from overwriting the new cookies with those of the previous session.
  return setting.usesCookies ? runWithLock(setting, send) : send()
}

/** Retries a login once if its challenge or nonce has expired or was used. */
export async function retryStaleChallenge<T>(attempt: () => Promise<T>): Promise<T> {
  return attempt().catch((error: unknown) => {
    if (isOutdated(error)) return attempt()
    throw error
  })
}
