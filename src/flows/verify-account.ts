import { DidAuthError } from '../errors.js'
import { assertContractAskable, isKeySignature, parseAccountSignature } from '../protocol/contract-signature.js'
import type { Hex } from '../protocol/contract-signature.js'
import { recoverPersonalSigner, type RecoverableSignature } from '../protocol/curve.js'
import { parseSignature } from '../protocol/personal-sign.js'
import type { Account } from '../protocol/siwe-message.js'
import { charge, type Caller } from './limits.js'
import type { Parts } from './parts.js'

type AccountParts = Pick<Parts, 'settings' | 'quotas' | 'store' | 'curve' | 'scheduler' | 'contractWallets'>

/** A message, and the signature that an account is claimed to have made. */
export interface SignedByAccount {
  account: Account
  message: string
  signature: unknown
  client: Caller
}

/**
 * Verifies that an account signed a message: by its key, else by the contract at its address if the chain is
 * configured. The key is tried first, because it needs no blockchain request.
 * @returns the value of the claim `amr`
 * @throws DidAuthError ERR_SIGNATURE, ERR_CHALLENGE, ERR_NETWORK, ERR_CONTRACT_ABSENT, ERR_CONTRACT_SIGNATURE,
 * ERR_CHAIN, ERR_TOO_MANY_REQUESTS, ERR_BUSY, ERR_STORE
 */
export async function verifyAccount(parts: AccountParts, signed: SignedByAccount): Promise<'eoa' | 'contract'> {
  const { account, client } = signed
  const { contractWallets } = parts
  const isKnownChain = contractWallets?.accepts(account.chainId) === true
  const signature = contractWallets === undefined ? undefined : parseAccountSignature(signed.signature)
  if (signature === undefined || isKeySignature(signature)) {
    const parsed = parseKeySignature(signed, isKnownChain)
    await parts.scheduler.yield(client)
    const signer = parsed && recoverPersonalSigner(parts.curve, signed.message, parsed)
    if (signer === account.address) return 'eoa'
    if (!isKnownChain) {
      const reason = { check: 'signer', expected: 'the address of the message', got: signer ?? 'none' }
      throw new DidAuthError('ERR_CHALLENGE', { reason })
    }
  }
  if (contractWallets === undefined || signature === undefined || !isKnownChain) {
    const reason = { check: 'chain', expected: 'a chain of contractWallets', got: account.chainId }
    throw new DidAuthError('ERR_NETWORK', { reason: { ...reason, option: 'contractWallets' } })
  }
  assertContractAskable(account.address, signature)
  await charge(parts, client, 'contracts')
  const address = account.address as Hex
  await contractWallets.verify({ chainId: account.chainId, address, message: signed.message, signature, client })
  return 'contract'
}

/** Parses the signature of a key; undefined for an invalid one if a contract may still accept it. */
function parseKeySignature(
  { signature, account }: SignedByAccount,
  mayBeContract: boolean
): RecoverableSignature | undefined {
  try {
    return parseSignature(signature, account.chainId)
  } catch (error) {
    if (mayBeContract) return undefined
    throw error
  }
}
