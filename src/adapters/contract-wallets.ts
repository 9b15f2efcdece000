import { DidAuthError, RETRY_AFTER_SECONDS } from '../errors.js'
import { createLazy } from '../lazy.js'
import type { ContractProof, ContractVerifier, ContractWallets, Logger } from '../ports.js'
import { hasDeployment } from '../protocol/contract-signature.js'
import { isObject } from '../protocol/json.js'
import { within } from '../time.js'
import { limitMilliseconds } from '../time-limits.js'
import { ConcurrencyLimiter } from './concurrency-limiter.js'

const { contractProof: PROOF_MILLISECONDS } = limitMilliseconds
const IN_FLIGHT = { maxRunning: 16, maxWaiting: 256, timeoutMilliseconds: PROOF_MILLISECONDS }
const MAX_REASON_LENGTH = 200

/** The client of a configured chain, and the chain id that its node reports (fetched once). */
type Chain = { verifier: ContractVerifier; reportedId: () => Promise<number> }

/**
 * Verifies signatures of contracts through nodes of the configured chains. A refusal counts only if the node answers
 * another call after it, because viem's client also returns false if its node is unavailable.
 * @param clients - clients by chain id
 * @see EIP-1271, ERC-6492
 */
export function createContractWallets(
  logger: Logger,
  clients: Readonly<Record<number, ContractVerifier>>
): ContractWallets {
  const limiter = new ConcurrencyLimiter(IN_FLIGHT)

  const createChain = (chainId: number, verifier: ContractVerifier): Chain => {
    const fetchChainId = async (): Promise<number> => {
      const expired = (): Error => new Error('the node did not report its chain id in time')
      const reported = await within(PROOF_MILLISECONDS, verifier.getChainId(), expired)
      if (reported !== chainId) {
        const fields = { event: 'wrong-chain', expected: chainId, reported: String(reported) }
        logger.error(fields, 'a client in contractWallets is connected to another chain and is not used')
      }
      return reported
    }
    return { verifier, reportedId: createLazy(fetchChainId) }
  }
  const chains = new Map(
    Object.entries(clients).map(([id, verifier]) => [Number(id), createChain(Number(id), verifier)])
  )

  return {
    accepts: (chainId) => chains.has(chainId),
    async verify(proof) {
      const chain = chains.get(proof.chainId)
      if (chain === undefined) throw new DidAuthError('ERR_NETWORK')
      let isLate = false
      const expired = (): Error => {
        isLate = true
        return createUnavailableError(new Error('the node did not answer within 5 s'))
      }
      // Stop calling the node if the result is too late or the client has disconnected.
      const isGone = (): boolean => isLate || proof.client.isGone()
      const verification = limiter.run(undefined, () => checkSignature(chain, proof, isGone))
      await within(PROOF_MILLISECONDS, verification, expired)
    }
  }
}

async function checkSignature(
  { verifier, reportedId }: Chain,
  { chainId, address, message, signature }: ContractProof,
  isGone: () => boolean
): Promise<void> {
  const ask = async <T>(call: () => Promise<T>): Promise<T> => {
    if (isGone()) throw new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
    try {
      return await call()
    } catch (cause) {
      throw createUnavailableError(removeUrl(cause))
    }
  }
  const reported = await ask(reportedId)
  if (reported !== chainId) {
    throw createUnavailableError(new Error(`the node is connected to chain ${String(reported)}`))
  }
  const code = await ask(() => verifier.getCode({ address }))
  if ((code === undefined || code === '0x') && !hasDeployment(signature)) {
    throw new DidAuthError('ERR_CONTRACT_ABSENT', { reason: { check: 'code', expected: 'a contract', chainId } })
  }
  const verdict: unknown = await ask(() => verifier.verifyMessage({ address, message, signature }))
  if (verdict === true) return
  await ask(() => verifier.getCode({ address }))
  throw new DidAuthError('ERR_CONTRACT_SIGNATURE', { reason: { check: 'contract', expected: 'acceptance', chainId } })
}

function createUnavailableError(cause: Error): DidAuthError {
  return new DidAuthError('ERR_CHAIN', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
}

/** Returns an error with the first line of a thrown message, without the URL of the node, which may contain a key. */
function removeUrl(thrown: unknown): Error {
  const message = isObject(thrown) && typeof thrown.message === 'string' ? thrown.message : typeof thrown
  const [first = ''] = message.replace(/\w+:\/\/\S+/g, '(URL)').split('\n')
  return new Error(`the call to the chain's node failed: ${first.slice(0, MAX_REASON_LENGTH)}`)
}
