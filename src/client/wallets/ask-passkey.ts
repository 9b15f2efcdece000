import { browser, type PasskeyAnswer } from '../wire/browser.js'
import { NO_PASSKEY, USER_REJECTED, WALLET } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields } from '../wire/json.js'
import { encodeBase64url, getSubtle, KEY_BYTES, randomBytes, utf8, type Bytes } from '../wire/seal.js'

/** Browsers do not report which of the two happened. Some show no prompt without an authenticator. */
const DECLINED = 'You declined, or have no passkey here. Try again, or choose another way.'

/**
 * Passkeys of this page by rpId that were created, and whose second prompt failed. Another attempt to create one must
 * not give the user a second passkey, which would be another account.
 */
const unopened = new Map<string, ArrayBuffer[]>()

/** A passkey and the purpose of its secret. Without `id` and `userName`, the user chooses a passkey. */
interface Question {
  readonly rpId: string
  /** Purpose of the secret: each context has its own secret. */
  readonly context: string
  /** Id of an existing passkey. */
  readonly id?: ArrayBuffer
  /** Name of a new passkey. */
  readonly userName?: string
}

/**
 * Gets a secret of 32 bytes from a passkey: its PRF at the SHA-256 of `context`. The user sees one prompt, or two if a
 * new passkey computes no secret during its creation.
 *
 * @throws DidAuthClientError INSECURE, NO_PASSKEY, USER_REJECTED, WALLET
 * @see WebAuthn Level 3, "Pseudo-random function extension"
 */
export async function askPasskey(question: Question): Promise<{ readonly id: ArrayBuffer; readonly secret: Bytes }> {
  const { rpId, context, userName } = question
  // A page without https has no WebAuthn either: its error must name https.
  const first = await getSubtle().digest('SHA-256', utf8(context))
  const { navigator: { credentials } = {}, PublicKeyCredential } = browser
  const capabilities = await PublicKeyCredential?.getClientCapabilities?.().catch(() => undefined)
  if (!credentials || !PublicKeyCredential || capabilities?.['extension:prf'] === false) {
    throw new DidAuthClientError(NO_PASSKEY)
  }
  const type = 'public-key'
  const created = unopened.get(rpId) ?? []
  const toDescriptors = (ids: readonly ArrayBuffer[]) => ids.map((passkeyId) => ({ type, id: passkeyId }))
  const call = (verb: 'create' | 'get', options: object): Promise<PasskeyAnswer> => {
    const publicKey = { challenge: randomBytes(32), extensions: { prf: { eval: { first } } }, ...options }
    return credentials[verb]({ publicKey }).catch((cause: unknown) => {
      const { name } = parseFields(cause)
      const isDeclined = name === 'NotAllowedError'
      // The passkey of this attempt, or of an earlier one, which the authenticator still has.
      const existing = userName !== undefined && (id ?? (name === 'InvalidStateError' && created.at(-1)))
      const passkeyId = existing ? encodeBase64url(new Uint8Array(existing)) : undefined
      const userMessage = existing ? 'Your passkey exists. Choose Open.' : isDeclined ? DECLINED : undefined
      throw new DidAuthClientError(isDeclined ? USER_REJECTED : WALLET, { cause, userMessage, passkeyId })
    })
  }
  let { id } = question
  if (userName !== undefined) {
    const answer = await call('create', {
      rp: { id: rpId, name: rpId },
      user: { id: randomBytes(32), name: userName, displayName: userName },
      // ES256 and RS256: every authenticator supports one of them.
      pubKeyCredParams: [-7, -257].map((alg) => ({ type, alg })),
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      excludeCredentials: toDescriptors(created)
    })
    id = answer.rawId
    const secret = readSecret(answer)
    if (secret) return { id, secret }
    unopened.set(rpId, [...created, id])
  }
  const allowCredentials = toDescriptors(id ? [id] : [])
  const answer = await call('get', { rpId, allowCredentials, userVerification: 'required' })
  unopened.delete(rpId)
  const secret = readSecret(answer)
  if (secret) return { id: answer.rawId, secret }
  const userMessage = 'Your new passkey does not work here. Delete it from your list of passkeys.'
  throw new DidAuthClientError(NO_PASSKEY, userName === undefined ? {} : { userMessage })
}

function readSecret(answer: PasskeyAnswer): Bytes | undefined {
  const { first } = answer.getClientExtensionResults().prf?.results ?? {}
  return first?.byteLength === KEY_BYTES ? new Uint8Array(first) : undefined
}
