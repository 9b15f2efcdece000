import { DidAuthError } from '../errors.js'
import { createLazy } from '../lazy.js'
import type { ContractProof, ContractVerifier, ContractWallets, Logger } from '../ports.js'
import { hasDeployment } from '../protocol/contract-signature.js'
import { isObject } from '../protocol/json.js'
import { within } from '../time.js'
import { ConcurrencyLimiter } from './concurrency-limiter.js'

/** Time limit for all calls of one proof together, including its wait. */
const PROOF_MILLISECONDS = 5_000
const IN_FLIGHT = { maxRunning: 16, maxWaiting: 256, timeoutMilliseconds: PROOF_MILLISECONDS }
const RETRY_AFTER_SECONDS = 5
const MAX_REASON_LENGTH = 200

/** A chain of the configuration, and the id that its node reports, asked once. */
type Chain = { verifier: ContractVerifier; reportedId: () => Promise<number> }

/**
 * Asks the nodes of the configured chains whether contracts accept signatures. "No" counts only when the node answers
 * after it as well: viem's client answers false when its node is unavailable.
 * @param clients - by chain id
 * @see EIP-1271, ERC-6492
 */
export function createContractWallets(
  logger: Logger,
  clients: Readonly<Record<number, ContractVerifier>>
): ContractWallets {
  const limiter = new ConcurrencyLimiter(IN_FLIGHT)

  const createChain = (chainId: number, verifier: ContractVerifier): Chain => {
    const ask = async (): Promise<number> => {
      const expired = (): Error => new Error('no chain id in time')
      const reported = await within(PROOF_MILLISECONDS, verifier.getChainId(), expired)
      if (reported !== chainId) {
        const fields = { event: 'wrong-chain', expected: chainId, reported: String(reported) }
        logger.error(fields, 'a client of contractWallets is of another chain: it is not used')
      }
      return reported
    }
    return { verifier, reportedId: createLazy(ask) }
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
        return createUnavailableError(new Error('no answer within 5 s'))
      }
      // A proof that is too late for its client must not keep a node busy.
      const isGone = (): boolean => isLate || proof.client.isGone()
      const judged = limiter.run(undefined, () => checkSignature(chain, proof, isGone))
      await within(PROOF_MILLISECONDS, judged, expired)
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
  if (reported !== chainId) throw createUnavailableError(new Error(`the node is of chain ${String(reported)}`))
  const code = await ask(() => verifier.getCode({ address }))
  if ((code === undefined || code === '0x') && !hasDeployment(signature)) {
    throw new DidAuthError('ERR_CONTRACT_ABSENT', { reason: { check: 'code', expected: 'a contract', chainId } })
  }
  const verdict: unknown = await ask(() => verifier.verifyMessage({ address, message, signature }))
  if (verdict === true) return
  await ask(() => verifier.getCode({ address }))
  throw new DidAuthError('ERR_CONTRACT_SIGNATURE', { reason: { check: 'contract', expected: 'its yes', chainId } })
}

function createUnavailableError(cause: Error): DidAuthError {
  return new DidAuthError('ERR_CHAIN', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
}

/** Returns the first line of what a node's client threw, without the URL of the node: it may contain a key. */
function removeUrl(thrown: unknown): Error {
  const message = isObject(thrown) && typeof thrown.message === 'string' ? thrown.message : typeof thrown
  const [first = ''] = message.replace(/\w+:\/\/\S+/g, '(URL)').split('\n')
  return new Error(`the chain's node gave no answer: ${first.slice(0, MAX_REASON_LENGTH)}`)
}
