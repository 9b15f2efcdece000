import type { SiweSettings } from '../config/settings.js'
import { DidAuthError } from '../errors.js'
import { ethrDid, parseEthrDid, toContractDid } from '../protocol/did.js'
import { RESERVED_STATEMENT } from '../protocol/format-siwe-message.js'
import { toAccountId, assertInTime, assertOwnSite, parseSiweMessage, type Account } from '../protocol/siwe-message.js'
import { completeLogin, type BindSession } from './complete-login.js'
import type { Tokens } from './tokens.js'
import { chargeRefusal, type Caller } from './limits.js'
import type { LoginParts } from './parts.js'
import { createNonceUse, verifyNonce } from './nonces.js'
import { findControllers } from './user.js'
import { verifyAccount } from './verify-account.js'

/** The body of a login by an EIP-4361 message, and its sender. */
export type SiweRequest = { message: string; signature: unknown; client: Caller; bindSession?: BindSession }

/**
 * Logs a user in by an EIP-4361 message: checks its content, verifies the signature, then consumes the nonce.
 * @throws DidAuthError ERR_MESSAGE, ERR_MESSAGE_DOMAIN, ERR_SIGNATURE, ERR_CHALLENGE, ERR_CHALLENGE_EXPIRED,
 * ERR_CHALLENGE_USED, ERR_TOO_MANY_REQUESTS, ERR_BUSY, ERR_STORE, any code of `verifyAccount`, `findControllers`,
 * `completeLogin`
 * @see EIP-4361, "Relying Party Implementer Steps"
 */
export async function logInWithSiwe(
  parts: LoginParts,
  siwe: SiweSettings,
  { message: text, signature, client, bindSession }: SiweRequest
): Promise<{ user: Account & { did: string }; tokens: Tokens }> {
  const { settings, curve, clock } = parts
  let did: string | undefined
  try {
    const message = parseSiweMessage(text)
    const account = { address: message.address.toLowerCase(), chainId: message.chainId }
    did = ethrDid(siwe.network, account.address)
    assertOwnSite(message, siwe.isOwnDomain)
    // An approval message never logs a user in.
    if (RESERVED_STATEMENT.test(message.statement ?? '')) throw new DidAuthError('ERR_MESSAGE')
    const nonce = verifyNonce(parts, siwe, message.nonce)
    assertInTime(message, clock.nowSeconds())
    const method = await verifyAccount(parts, { account, message: text, signature, client })
    // The same address may belong to another contract on another chain, so the DID contains the chain's number.
    if (method === 'contract') did = toContractDid(account)
    const user = parseEthrDid(did, curve)
    if (!(await findControllers(parts, user, client)).has(account.address)) {
      const expected = 'a DID whose document still lists the address in the DID'
      throw new DidAuthError('ERR_CHALLENGE', { reason: { check: 'control', expected, option: 'didControl' } })
    }
    const { statement, resources, requestId, chainId } = message
    const { canonicalDid, address } = user
    const identity = { canonicalDid, address, siwe: { statement, resources, requestId, chainId } }
    const logic = settings.authenticationBusinessLogic
    const tokens = await completeLogin(parts, {
      event: 'login',
      user,
      client,
      proof: { message: text, signature: String(signature) },
      bindSession,
      use: createNonceUse(nonce),
      logic: logic && (() => logic(user.did, identity)),
      claims: { acct: toAccountId(account), amr: [method] }
    })
    return { user: { did, ...account }, tokens }
  } catch (error) {
    await chargeRefusal(parts, { did, client }, error)
    throw error
  }
}
