// The credential that logs a wallet in at the file relay: a JWT whose only claim is the challenge.
// node examples/credential.mjs <URL of the relay> <challenge>
import { createJWT, ES256KSigner, hexToBytes } from 'did-jwt'
import { Wallet } from 'ethers'

const [relayUrl, challenge] = process.argv.slice(2)
const wallet = new Wallet(process.env.WALLET_KEY ?? `0x${'01'.repeat(32)}`)
const vc = {
  '@context': ['https://www.w3.org/2018/credentials/v1'],
  type: ['VerifiableCredential'],
  credentialSubject: { claims: [{ claimType: 'challenge', claimValue: challenge }] }
}
const issuer = `did:ethr:rsk:${wallet.address.toLowerCase()}`
const signer = ES256KSigner(hexToBytes(wallet.privateKey))
console.log(await createJWT({ aud: relayUrl, vc }, { issuer, signer }))
