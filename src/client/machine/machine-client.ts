import { reuseToken, type CachedToken } from '../wire/cached-token.js'
import { parseServiceUrl } from '../wire/request.js'
import { machineToken, type MachineOptions } from './machine-token.js'

/**
 * A machine that is logged in at a service by its key. It reuses each token until 30 s before the token expires.
 *
 * @example
 * const machine = new MachineClient({ url: 'https://auth.example', did, privateKey })
 * const vault = new VaultClient({ auth: machine, resource: 'https://vault.example' })
 * await vault.add('notes', 'Built')
 */
export class MachineClient {
  /** The machine, as the clients of relay and vault need it. */
  readonly session: { readonly did: string }
  readonly #options: MachineOptions
  readonly #tokens = new Map<string, CachedToken>()

  /** @throws TypeError if `url` is not an http(s) URL */
  constructor(options: MachineOptions) {
    parseServiceUrl(options.url)
    this.#options = options
    this.session = { did: options.did }
  }

  /**
   * Returns a token for a resource. Concurrent calls share one request.
   *
   * @param refused - a token that the resource refused, to be replaced
   * @throws DidAuthClientError and TypeError as {@link machineToken}
   */
  tokenFor(resource: string, refused?: string): Promise<string> {
    const { did, clock } = this.#options
    const nowSeconds = (): number => clock?.nowSeconds() ?? performance.now() / 1_000
    return reuseToken(this.#tokens, did, resource, refused, nowSeconds, async () => {
      const { accessToken, expiresInSeconds } = await machineToken({ ...this.#options, resource })
      return [accessToken, expiresInSeconds]
    })
  }
}
