import type { BaseWallet } from 'ethers'
import type { Answer } from './demo-step.js'

/** A user's device, with the wallet and the tokens. It calls a service like any other client. */
export class Device {
  accessToken = ''
  refreshToken = ''

  constructor(
    readonly serviceUrl: string,
    readonly wallet: BaseWallet
  ) {}

  get did(): string {
    return `did:ethr:rsk:${this.wallet.address.toLowerCase()}`
  }

  async signUp(credentials: string[]): Promise<Answer> {
    const message = `${await this.#loginMessage('/request-signup')}\nMy credentials are: ${credentials.join(',')}`
    return this.#keep('/signup', { did: this.did, sig: await this.wallet.signMessage(message), credentials })
  }

  async logIn(): Promise<Answer> {
    const message = await this.#loginMessage('/request-auth')
    return this.#keep('/auth', { did: this.did, sig: await this.wallet.signMessage(message) })
  }

  refresh(refreshToken = this.refreshToken): Promise<Answer> {
    return this.#keep('/refresh-token', { refreshToken })
  }

  logOut(): Promise<Answer> {
    return this.send('POST', '/logout')
  }

  async send(method: string, path: string, body?: object): Promise<Answer> {
    const headers = { 'Content-Type': 'application/json', Authorization: `DIDAuth ${this.accessToken}` }
    const response = await fetch(this.serviceUrl + path, { method, headers, body: body ? JSON.stringify(body) : null })
    const pinStatus = response.headers.get('Pin-Status') ?? undefined
    return { status: response.status, text: await response.text(), pinStatus }
  }

  async #loginMessage(path: string): Promise<string> {
    const { text } = await this.send('POST', path, { did: this.did })
    const { challenge } = JSON.parse(text) as { challenge: string }
    return `Login to ${new URL(this.serviceUrl).host}\nVerification code: ${challenge}`
  }

  async #keep(path: string, body: object): Promise<Answer> {
    const answer = await this.send('POST', path, body)
    if (answer.status === 200) Object.assign(this, JSON.parse(answer.text))
    return answer
  }
}
