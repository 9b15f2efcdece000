import type { Wallet } from '../wallet.js'

/** Which relay, and who logs in there. */
export interface RelayClientOptions {
  /** Where the relay is, as in `https://relay.example.com`. */
  readonly url: string
  /** Signs the login. Without it, `open` reads from gateways alone. */
  readonly wallet?: Wallet
  /** Network of the DID: `rsk` when absent, `rsk:testnet`, a hex chain id, empty for Ethereum; `chain` asks the wallet. */
  readonly network?: string
  /** What stands after `Login to `. The host of `url` when absent. */
  readonly domain?: string
  /** For those who hold a key: makes the credential of the login (a JWT) in place of the wallet's signature. */
  readonly credential?: (challenge: string, did: string) => Promise<string> | string
  /** The global one when absent. */
  readonly fetch?: typeof globalThis.fetch
  /** How long one answer may take, with its body. Default 60. */
  readonly timeoutSeconds?: number
}

/** What `send` takes. */
export interface SendOptions {
  /** Ends the wait; the call throws its reason. */
  readonly signal?: AbortSignal
  /** Is told for how many seconds the relay keeps the file. Not called where the relay does not say it. */
  readonly onExpiresIn?: (seconds: number) => void
}

/** Where content is looked for. */
export interface OpenOptions extends Pick<SendOptions, 'signal'> {
  /** IPFS gateways that are asked beside the relay, as in `https://ipfs.io`. They need not be trusted. */
  readonly gateways?: readonly string[]
}

/** @throws TypeError for other content, such as an ArrayBuffer, a Blob or an array */
export function parseBytes(content: unknown): Uint8Array {
  if (content instanceof Uint8Array) return content
  throw new TypeError('Give a text or a Uint8Array')
}
