import { Buffer } from 'node:buffer'
import { DidAuthError } from '../../src/errors.js'
import { type AccessTokenExpectation, verifyAccessToken } from '../../src/protocol/access-token.js'
import { type Draw, numbersFrom } from './random-numbers.js'
import { recoverPersonalSigner, type Curve } from '../../src/protocol/curve.js'
import { parseSignature } from '../../src/protocol/personal-sign.js'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const OTHERS = `.=+/ \n\t\0é"{}`
const N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

/** Function that changes a token. It may take parts from the `other` valid token. */
type Mutation = (token: string, draw: Draw, other: string) => string

const parts = (token: string): [string, string, string] => token.split('.') as [string, string, string]
const splice = (text: string, at: number, cut: number, insert: string): string =>
  text.slice(0, at) + insert + text.slice(at + cut)
const anyChar = (draw: Draw): string =>
  draw(4) === 0 ? OTHERS[draw(OTHERS.length)]! : ALPHABET[draw(ALPHABET.length)]!

/** Changes the JSON of the header or the payload, but not the signature. */
function rewrite(token: string, index: 0 | 1, change: (fields: Record<string, unknown>) => void): string {
  const all = parts(token)
  const fields = JSON.parse(Buffer.from(all[index], 'base64url').toString()) as Record<string, unknown>
  change(fields)
  all[index] = Buffer.from(JSON.stringify(fields)).toString('base64url')
  return all.join('.')
}

const mutations: readonly Mutation[] = [
  function flipBit(token, draw) {
    const all = parts(token)
    const index = draw(3)
    const bytes = Buffer.from(all[index]!, 'base64url')
    bytes[draw(bytes.length)]! ^= 1 << draw(8)
    all[index] = bytes.toString('base64url')
    return all.join('.')
  },
  (token, draw) => splice(token, draw(token.length), 1, anyChar(draw)),
  (token, draw) => splice(token, draw(token.length), 1 + draw(3), ''),
  (token, draw) => splice(token, draw(token.length + 1), 0, anyChar(draw)),
  (token, draw) => token.slice(0, draw(token.length)),
  (token, draw, other) => {
    const all = parts(token)
    const index = draw(3)
    all[index] = parts(other)[draw(3)]!
    return all.join('.')
  },
  (token, draw) =>
    rewrite(token, 1, (claims) => {
      const names = Object.keys(claims)
      const name = names[draw(names.length)]!
      claims[name] = [null, 'other', 9_999_999_999, [claims[name]], true, { a: claims[name] }][draw(6)]
    }),
  (token, draw) =>
    rewrite(token, 0, (header) => {
      header[['alg', 'typ', 'kid', 'crit', 'jwk', 'b64'][draw(6)]!] = [
        'none',
        'HS256',
        'ES256K-R',
        'ES256',
        ['exp'],
        {}
      ][draw(6)]
    }),
  function highS(token) {
    const [header, payload, signature] = parts(token)
    const bytes = Buffer.from(signature, 'base64url')
    const s = N - BigInt(`0x${bytes.subarray(32).toString('hex')}`)
    const highSignature = Buffer.concat([bytes.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, '0'), 'hex')])
    return [header, payload, highSignature.toString('base64url')].join('.')
  },
  (token, draw) => splice(token, [0, token.length, token.indexOf('.')][draw(3)]!, 0, OTHERS[draw(OTHERS.length)]!)
]

/** Changes valid tokens at random. Returns the number of mutants that are no valid token, and the accepted ones. */
export function countAcceptedMutants(
  curve: Pick<Curve, 'sha256' | 'verify'>,
  tokens: readonly string[],
  expected: AccessTokenExpectation,
  count: number,
  seed = 20_260_101
): { mutants: number; accepted: string[] } {
  const draw = numbersFrom(seed)
  const originals = new Set(tokens)
  const accepted: string[] = []
  let mutants = 0
  while (mutants < count) {
    const mutate = mutations[draw(mutations.length)]!
    const mutant = mutate(tokens[draw(tokens.length)]!, draw, tokens[draw(tokens.length)]!)
    if (originals.has(mutant)) continue
    mutants += 1
    if (isAccepted(curve, mutant, expected)) accepted.push(mutant)
  }
  return { mutants, accepted }
}

function isAccepted(curve: Pick<Curve, 'sha256' | 'verify'>, token: string, expected: AccessTokenExpectation): boolean {
  try {
    verifyAccessToken(curve, token, expected)
    return true
  } catch (error) {
    if (error instanceof DidAuthError && error.code === 'ERR_ACCESS_TOKEN') return false
    throw error
  }
}

interface Signed {
  address: string
  message: string
  sig: string
}

/** Flips one random bit of a valid signature, many times. Counts the results that still prove the same address. */
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
