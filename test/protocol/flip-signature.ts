import { Buffer } from 'node:buffer'
import { DidAuthError } from '../../src/errors.js'
import type { Curve } from '../../src/protocol/curve.js'
import { parseSignature, recoverPersonalSigner } from '../../src/protocol/personal-sign.js'
import { numbersFrom } from './random-numbers.js'

interface Signed {
  address: string
  message: string
  sig: string
}

/** Flips one random bit of a good signature, many times, and counts those that still prove the same address. */
export function countAcceptedFlips(
  curve: Pick<Curve, 'keccak256' | 'keccak256Hex' | 'recover'>,
  signed: readonly Signed[],
  flips: number
): { flips: number; accepted: number } {
  const draw = numbersFrom(20_260_101)
  let accepted = 0
  for (let flip = 0; flip < flips; flip += 1) {
    const { address, message, sig } = signed[draw(signed.length)]!
    const bytes = Buffer.from(sig.slice(2), 'hex')
    bytes[draw(bytes.length)]! ^= 1 << draw(8)
    if (proves(curve, address, message, `0x${bytes.toString('hex')}`)) accepted += 1
  }
  return { flips, accepted }
}

function proves(
  curve: Pick<Curve, 'keccak256' | 'keccak256Hex' | 'recover'>,
  address: string,
  message: string,
  sig: string
): boolean {
  try {
    return recoverPersonalSigner(curve, message, parseSignature(sig, 30)) === address
  } catch (error) {
    if (error instanceof DidAuthError && error.code === 'ERR_SIGNATURE') return false
    throw error
  }
}
