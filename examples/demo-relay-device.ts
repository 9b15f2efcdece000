import { createVerifiableCredentialJwt } from 'did-jwt-vc'
import type { HDNodeWallet } from 'ethers'
import { es256kSigner } from 'express-did-auth'
import type { Answer } from './demo-step.js'

/** A user's device that uses the file relay. It logs in with a credential in place of a signed message. */
export class RelayDevice {
  /** Log of all requests to the relay. */
  sent = ''
  #token = ''

  constructor(
    readonly relayUrl: string,
    readonly wallet: HDNodeWallet
  ) {}

  async logIn(): Promise<Answer> {
    const did = `did:ethr:rsk:${this.wallet.address.toLowerCase()}`
    const { challenge } = JSON.parse((await this.#send('/request-auth', { did })).text) as { challenge: string }
    const vc = {
      '@context': ['https://www.w3.org/2018/credentials/v1'],
      type: ['VerifiableCredential'],
      credentialSubject: { claims: [{ claimType: 'challenge', claimValue: challenge }] }
    }
    const issuer = { did, signer: es256kSigner(this.wallet.privateKey), alg: 'ES256K' }
    const jwt = await createVerifiableCredentialJwt({ aud: this.relayUrl, vc }, issuer)
    const answer = await this.#send('/auth', { jwt })
    this.#token = (JSON.parse(answer.text) as { token: string }).token
    return answer
  }

  post(file: string): Promise<Answer> {
    return this.#send('/file', { file })
  }

  get(cid: string): Promise<Answer> {
    return this.#send(`/file/${cid}`)
  }

  async #send(path: string, body?: object): Promise<Answer> {
    const method = body === undefined ? 'GET' : 'POST'
    const init = { method, headers: { 'Content-Type': 'application/json', Authorization: this.#token } }
    const json = body === undefined ? null : JSON.stringify(body)
    this.sent += `${method} ${path} ${this.#token} ${json ?? ''}\n`
    const response = await fetch(this.relayUrl + path, { ...init, body: json })
    return { status: response.status, text: await response.text() }
  }
}
