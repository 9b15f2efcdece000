import { createVerifiableCredentialJwt } from 'did-jwt-vc'
import { Wallet } from 'ethers'
import { didOfPrivateKey, es256kSigner } from 'express-did-auth'

/** An issuer that signs a user's e-mail address. Anybody can issue credentials: services choose whom they trust. */
export interface DemoIssuer {
  did: string
  emailCredential(userDid: string, email: string): Promise<string>
}

export async function createIssuer(): Promise<DemoIssuer> {
  const { privateKey } = Wallet.createRandom()
  const issuer = { did: await didOfPrivateKey(privateKey), signer: es256kSigner(privateKey), alg: 'ES256K' }
  return {
    did: issuer.did,
    emailCredential: (userDid, email) =>
      createVerifiableCredentialJwt(
        {
          sub: userDid,
          nbf: Math.floor(Date.now() / 1000) - 60,
          vc: {
            '@context': ['https://www.w3.org/2018/credentials/v1'],
            type: ['VerifiableCredential', 'EmailCredential'],
            credentialSubject: { email }
          }
        },
        issuer
      )
  }
}
