import { createHash, randomBytes } from 'node:crypto'
import secp256k1 from 'secp256k1'
import { benchWallet, walletOfKey } from './bench-wallet.js'
import { SERVICE_KEY, SERVICE_URL } from './variants.js'

const HEADER = Buffer.from('{"alg":"ES256K","typ":"JWT"}').toString('base64url')

/** Good access tokens that the server has not seen, as another instance with the same key would issue them. */
export function mintTokens(count: number): string[] {
  const privateKey = Buffer.from(SERVICE_KEY, 'hex')
  const iss = walletOfKey(privateKey).did
  const sub = benchWallet(1).did
  const iat = Math.floor(Date.now() / 1000)
  return Array.from({ length: count }, () => {
    const id = randomBytes(16).toString('base64url')
    const payload = { iss, aud: SERVICE_URL, sub, exp: iat + 600, nbf: iat, iat, jti: id, sid: id, use: 'access' }
    const input = `${HEADER}.${Buffer.from(JSON.stringify(payload)).toString('base64url')}`
    const { signature } = secp256k1.ecdsaSign(createHash('sha256').update(input).digest(), privateKey)
    return `${input}.${Buffer.from(signature).toString('base64url')}`
  })
}
