import type { Settings } from '../config/settings.js'
import { DidAuthError } from '../errors.js'
import type { Client } from '../ports.js'
import type { Curve } from '../protocol/curve.js'
import { assertNetwork, findNetworkNumber, networkOfDid, parseEthrDid, type EthrDid } from '../protocol/did.js'
import type { Session } from '../protocol/session.js'
import { endSession } from './end-session.js'
import type { Parts } from './parts.js'

/** A user whose control of a DID is proved. `address` is the one that signed, which may be another than the DID's. */
export type ProvedUser = EthrDid

const ADDRESS = /^0x[0-9a-f]{40}$/

/** Whether a DID contains the number of a chain in `contractWallets`. These DIDs belong to contracts. */
export function isContractDid({ contractWallets }: Pick<Settings, 'contractWallets'>, did: string): boolean {
  if (contractWallets === undefined) return false
  const chainId = findNetworkNumber(networkOfDid(did))
  return chainId !== undefined && Object.hasOwn(contractWallets, chainId)
}

/**
 * Asserts that a key may log in with a DID: its network is accepted, and it is not reserved for contracts.
 * @throws DidAuthError ERR_DID_UNSUPPORTED
 */
export function assertKeyDid(settings: Pick<Settings, 'networks' | 'contractWallets'>, did: string): void {
  if (settings.networks !== undefined) assertNetwork(did, settings.networks)
  if (!isContractDid(settings, did)) return
  const reason = {
    check: 'network',
    expected: 'a network name, or for a contract a login by EIP-4361: contractWallets lists this chain',
    option: 'contractWallets'
  }
  throw new DidAuthError('ERR_DID_UNSUPPORTED', { reason })
}

/** Returns the user of a DID with which a key may log in. @throws DidAuthError ERR_DID_UNSUPPORTED */
export function identifyKeyUser(
  settings: Pick<Settings, 'networks' | 'contractWallets'>,
  curve: Curve,
  did: string
): EthrDid {
  assertKeyDid(settings, did)
  return parseEthrDid(did, curve)
}

/**
 * Returns the addresses that control a DID: the address in it, or with `didControl: 'document'` those of its document.
 * @throws DidAuthError ERR_DID_UNSUPPORTED, also if the document lists none; ERR_RESOLVER, ERR_BUSY
 */
export async function findControllers(
  { didControllers }: Pick<Parts, 'didControllers'>,
  { did, address }: EthrDid,
  client: Client
): Promise<ReadonlySet<string>> {
  const controllers = didControllers === undefined ? new Set([address]) : await didControllers.of(did, client)
  if (controllers.size > 0) return controllers
  const reason = { check: 'document', expected: 'a document with keys under authentication', option: 'didControl' }
  throw new DidAuthError('ERR_DID_UNSUPPORTED', { reason })
}

/** Returns the address that opened a session: its claim `ctl` with `didControl: 'document'`, else that of its DID. */
export function getController(
  { didControl }: Pick<Parts['settings'], 'didControl'>,
  claims: Readonly<Record<string, unknown>> | undefined,
  address: string
): string {
  const ctl = didControl === 'document' ? claims?.ctl : undefined
  return typeof ctl === 'string' && ADDRESS.test(ctl) ? ctl : address
}

/**
 * Returns the user of a session, whose address is the key that opened it, and asserts that this key still controls the
 * DID. It revokes the session only if the resolved document no longer lists the key or is deactivated. If the DID
 * cannot be resolved, the session stays.
 * @throws DidAuthError ERR_REFRESH_TOKEN (the session is revoked now), ERR_RESOLVER, ERR_BUSY, ERR_STORE
 */
export async function identifySessionUser(
  parts: Pick<Parts, 'settings' | 'clock' | 'curve' | 'store' | 'report' | 'didControllers'>,
  { sessionId, did, tokenClaims }: Pick<Session, 'sessionId' | 'did' | 'tokenClaims'>,
  client: Client
): Promise<ProvedUser> {
  const { settings, report } = parts
  const identity = parseEthrDid(did, parts.curve)
  const address = getController(settings, tokenClaims, identity.address)
  const user = { ...identity, address }
  if (await isInControl(parts, user, client)) return user
  await endSession(parts, sessionId, 'revoked')
  report?.({ type: 'control-lost', did, sessionId, address, code: 'ERR_REFRESH_TOKEN' })
  const reason = { check: 'control', expected: 'a method of the DID under authentication', got: address }
  throw new DidAuthError('ERR_REFRESH_TOKEN', { reason })
}

async function isInControl(
  { didControllers }: Pick<Parts, 'didControllers'>,
  { did, address }: EthrDid,
  client: Client
): Promise<boolean> {
  if (didControllers === undefined) return true
  try {
    return (await didControllers.of(did, client)).has(address)
  } catch (error) {
    if (!(error instanceof DidAuthError) || error.code !== 'ERR_DID_UNSUPPORTED') throw error
    throw new DidAuthError('ERR_RESOLVER', { cause: error.cause })
  }
}
