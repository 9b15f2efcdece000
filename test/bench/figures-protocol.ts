/**
 * Figure F9: 1,000,000 random mutations of access tokens and 10,000 bit flips of signatures, none of which may be
 * accepted. Prints one line; the exit code says whether the goal was reached.
 */
import { Buffer } from 'node:buffer'
import { loadCurve } from '../../src/adapters/curve.js'
import { countAcceptedFlips } from '../protocol/flip-signature.js'
import { es256k, forgeJwt } from '../protocol/forge-jwt.js'
import { countAcceptedMutants } from '../protocol/mutate-token.js'
import { loginText, walletOf } from '../support/wallet.js'
import { reportFigure } from './report-figure.js'

const MUTANTS = 1_000_000
const FLIPS = 10_000
const NOW = 1_800_000_000

const startedMilliseconds = performance.now()
const curve = await loadCurve()
const service = walletOf(7777)
const expected = {
  serviceDid: service.did,
  serviceUrl: 'https://service.example',
  publicKey: curve.publicKeyOf(Buffer.from(service.privateKey.slice(2), 'hex'))!,
  nowSeconds: NOW
}
const tokens = [1, 2, 3, 4].map((number) => {
  const times = { exp: NOW + 600, nbf: NOW, iat: NOW }
  const ids = { jti: `token-${number}`, sid: `session-${number}`, use: 'access' }
  const claims = { iss: service.did, aud: expected.serviceUrl, sub: walletOf(number).did, ...times, ...ids }
  return forgeJwt({ alg: 'ES256K', typ: 'JWT' }, claims, es256k(service.privateKey))
})
const signed = [1, 2, 3, 4].map((number) => {
  const wallet = walletOf(number)
  const message = loginText('service.example', `${number}`.repeat(64))
  return { address: wallet.address.toLowerCase(), message, sig: wallet.personalSign(message) }
})

const { accepted } = countAcceptedMutants(curve, tokens, expected, MUTANTS)
const flips = countAcceptedFlips(curve, signed, FLIPS)
const seconds = Math.round((performance.now() - startedMilliseconds) / 1000)
reportFigure(
  'F9',
  `${MUTANTS} mutated tokens, ${accepted.length} accepted; ` +
    `${FLIPS} flipped signatures, ${flips.accepted} accepted (${curve.kind}, ${seconds} s)`,
  accepted.length + flips.accepted === 0
)
