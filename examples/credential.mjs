// Prints the credential that logs a wallet in to the file relay: a JWT whose only claim is the challenge.
// node examples/credential.mjs <URL of the relay> <challenge>
import { ES256KSigner, hexToBytes } from 'did-jwt'
import { createVerifiableCredentialJwt } from 'did-jwt-vc'
import { Wallet } from 'ethers'

const [relayUrl, challenge] = process.argv.slice(2)
const wallet = new Wallet(process.env.WALLET_KEY ?? `0x${'01'.repeat(32)}`)
const vc = {
  '@context': ['https://www.w3.org/2018/credentials/v1'],
  type: ['VerifiableCredential'],
  credentialSubject: { claims: [{ claimType: 'challenge', claimValue: challenge }] }
}
const did = `did:ethr:rsk:${wallet.address.toLowerCase()}`
const issuer = { did, signer: ES256KSigner(hexToBytes(wallet.privateKey)), alg: 'ES256K' }
const iat = Math.floor(Date.now() / 1000)
console.log(await createVerifiableCredentialJwt({ aud: relayUrl, iat, vc }, issuer))
