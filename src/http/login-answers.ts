import type { Request } from 'express'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { Tokens } from '../flows/issue-tokens.js'
import { logIn } from '../flows/log-in.js'
import type { LoginClient, Parts } from '../flows/parts.js'
import { signUp } from '../flows/sign-up.js'
import { clientOf } from './client-network.js'
import type { Answer } from './find-route.js'
import { MAX_BODY_BYTES, readBody, readLogin, readSignUp } from './read-request.js'
import type { HttpParts } from './require-did.js'

/** Refusals that cost us work and the sender nothing: the challenge is not consumed, and the same body can be sent again. */
const UNPROVED: ReadonlySet<DidAuthErrorCode> = new Set([
  'ERR_SIGNATURE',
  'ERR_CHALLENGE',
  'ERR_CREDENTIAL',
  'ERR_CREDENTIAL_EXPIRED',
  'ERR_CREDENTIAL_ISSUER',
  'ERR_RESOLVER'
])

/** Signatures that were good once: they count against the client network alone, and tell a client to retry. */
const OUTDATED: ReadonlySet<DidAuthErrorCode> = new Set([
  'ERR_CHALLENGE_EXPIRED',
  'ERR_CHALLENGE_USED',
  // The signature is good, yet the challenge is not consumed: the same body costs us the same work again.
  'ERR_DISCLOSURE_MISSING'
])

/**
 * Makes the answers to a login and to a sign up. A good proof charges none of the budgets of strangers,
 * except for keys of credentials that were tried.
 *
 * @param maxSignUpBytes - longest body of a sign up
 */
export function loginAnswers(http: HttpParts, maxSignUpBytes: number): { logInAnswer: Answer; signUpAnswer: Answer } {
  const { transport, limits } = http

  const answerProof =
    <T extends { did: string }>(
      read: (req: Request) => Promise<T>,
      prove: (parts: Parts, proof: T & { client: LoginClient }) => Promise<Tokens>
    ): Answer =>
    async (req, res) => {
      limits.assertProofBudget(req)
      const proof = await read(req)
      const client = {
        ...clientOf(req),
        chargeLogin: () => limits.chargeLogin(req),
        chargeKey: () => limits.chargeRefusedProof(req, proof.did, false)
      }
      try {
        transport.sendTokens(res, await prove(await http.parts(), { ...proof, client }))
      } catch (error) {
        if (error instanceof DidAuthError && (UNPROVED.has(error.code) || OUTDATED.has(error.code))) {
          const { did } = proof
          http.report({ type: 'proof-refused', did, code: error.code, clientNetwork: client.network })
          await limits.chargeRefusedProof(req, did, UNPROVED.has(error.code))
        }
        throw error
      }
    }

  return {
    logInAnswer: answerProof(async (req) => readLogin(await readBody(req, MAX_BODY_BYTES)), logIn),
    signUpAnswer: answerProof(async (req) => readSignUp(await readBody(req, maxSignUpBytes)), signUp)
  }
}
