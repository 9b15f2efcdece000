import { numbersFrom, type Draw } from '../protocol/random-numbers.js'
import { loginCredential } from '../support/servers/relay-client.js'
import type { Tokens } from '../support/servers/server-client.js'
import { Connection, type Answer } from './http-client.js'
import type { BuiltServer } from './servers.js'
import { createLoginText, createNumberedWallet, type TestWallet } from '../support/fixtures/fixtures.js'

const CLIENTS = 16
const USERS_PER_CLIENT = 20
const KEYS = 5
const CONTENTS = 40
const FILE_BYTES = 2_048
/** Number of latest files that a user reads. */
const KEPT_CIDS = 4
/** Maximum number of failed logins of a user because a challenge window ended. A window ends every 5 minutes. */
const MAX_RETRIES = 5

type ServerAddress = Pick<BuiltServer, 'url' | 'serviceUrl'>
type Ask = (server: 'auth' | 'relay' | 'vault', request: Request, ...statuses: number[]) => Promise<Answer>

interface Request {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  path: string
  body?: object
  token?: string | undefined
}

/** User who uses every route of the three servers, and logs in if necessary. */
class SoakUser {
  readonly #wallet: TestWallet
  readonly #domains: { auth: string; vault: string }
  readonly #ask: Ask
  readonly #draw: Draw
  readonly #tokens = new Map<'auth' | 'vault', Tokens>()
  readonly #cids: string[] = []
  #relayToken: string | undefined
  #retries = 0

  constructor(wallet: TestWallet, domains: { auth: string; vault: string }, ask: Ask, draw: Draw) {
    this.#wallet = wallet
    this.#domains = domains
    this.#ask = ask
    this.#draw = draw
  }

  async act(): Promise<void> {
    const chance = this.#draw(100)
    if (chance < 6) await this.#logIn('auth')
    else if (chance < 36) await this.#ask('auth', { method: 'GET', path: '/me', ...(await this.#as('auth')) }, 200)
    else if (chance < 46) await this.#refresh('auth')
    else if (chance < 48) await this.#logOut()
    else if (chance < 52) await this.#sendInvalidRequests()
    else if (chance < 62) await this.#postFile()
    else if (chance < 74) await this.#getFile()
    else if (chance < 79) this.#relayToken = undefined
    else await this.#useVault()
  }

  async #logIn(server: 'auth' | 'vault'): Promise<Tokens> {
    const { did } = this.#wallet
    const response = await this.#ask(server, { method: 'POST', path: '/request-auth', body: { did } }, 200)
    const { challenge } = JSON.parse(response.body) as { challenge: string }
    const sig = this.#wallet.personalSign(createLoginText(this.#domains[server], challenge))
    const { status, body } = await this.#ask(server, { method: 'POST', path: '/auth', body: { did, sig } }, 200, 401)
    // A challenge window has ended in the meantime. Clients then retry, but not forever.
    if (status === 401 && body.startsWith('Invalid challenge response') && (this.#retries += 1) < MAX_RETRIES) {
      return this.#logIn(server)
    }
    if (status !== 200) throw new Error(`login: ${status} ${body}`)
    const tokens = JSON.parse(body) as Tokens
    this.#tokens.set(server, tokens)
    return tokens
  }

  async #as(server: 'auth' | 'vault'): Promise<{ token: string }> {
    const { accessToken } = this.#tokens.get(server) ?? (await this.#logIn(server))
    return { token: `DIDAuth ${accessToken}` }
  }

  async #refresh(server: 'auth' | 'vault'): Promise<void> {
    const { refreshToken } = this.#tokens.get(server) ?? (await this.#logIn(server))
    const { body } = await this.#ask(server, { method: 'POST', path: '/refresh-token', body: { refreshToken } }, 200)
    this.#tokens.set(server, JSON.parse(body) as Tokens)
  }

  async #logOut(): Promise<void> {
    await this.#ask('auth', { method: 'POST', path: '/logout', body: {}, ...(await this.#as('auth')) }, 200)
    this.#tokens.delete('auth')
  }

  async #sendInvalidRequests(): Promise<void> {
    const text = String(this.#draw(1e9))
    const body = { did: this.#wallet.did, sig: `0x${text.padStart(130, '1')}` }
    await this.#ask('auth', { method: 'POST', path: '/auth', body }, 401)
    await this.#ask('auth', { method: 'GET', path: '/me', token: `DIDAuth ${text}` }, 401)
    await this.#ask('relay', { method: 'POST', path: '/auth', body: { jwt: text } }, 401)
    await this.#ask('vault', { method: 'GET', path: `/${text}/key` }, 200)
  }

  async #relay(): Promise<{ token: string }> {
    if (this.#relayToken === undefined) {
      const { did } = this.#wallet
      const response = await this.#ask('relay', { method: 'POST', path: '/request-auth', body: { did } }, 200)
      const { challenge } = JSON.parse(response.body) as { challenge: string }
      const jwt = loginCredential(this.#wallet, challenge)
      const { body } = await this.#ask('relay', { method: 'POST', path: '/auth', body: { jwt } }, 200)
      this.#relayToken = (JSON.parse(body) as { token: string }).token
    }
    return { token: this.#relayToken }
  }

  async #postFile(): Promise<void> {
    const file = String(this.#draw(1e9)).padEnd(FILE_BYTES, 'x')
    const answer = await this.#ask(
      'relay',
      { method: 'POST', path: '/file', body: { file }, ...(await this.#relay()) },
      200
    )
    this.#cids.push((JSON.parse(answer.body) as { cid: string }).cid)
    if (this.#cids.length > KEPT_CIDS) this.#cids.shift()
  }

  async #getFile(): Promise<void> {
    const token = await this.#relay()
    const cid = this.#cids[this.#draw(this.#cids.length || 1)]
    await this.#ask('relay', { method: 'GET', path: `/file/${cid ?? 'none'}`, ...token }, cid === undefined ? 404 : 200)
  }

  async #useVault(): Promise<void> {
    const chance = this.#draw(20)
    const path = `/key-${this.#draw(KEYS)}`
    const body = { content: `content ${this.#draw(CONTENTS)} `.padEnd(300, 'y') }
    if (chance < 5) await this.#ask('vault', { method: 'GET', path: `/${this.#wallet.did}${path}` }, 200)
    else if (chance < 9) await this.#refresh('vault')
    else {
      const token = await this.#as('vault')
      if (chance < 14) await this.#ask('vault', { method: 'POST', path, body, ...token }, 201)
      else if (chance < 17) await this.#ask('vault', { method: 'PUT', path, body, ...token }, 200)
      else if (chance < 19) await this.#ask('vault', { method: 'DELETE', path, ...token }, 200)
      else await this.#ask('vault', { method: 'GET', path: '/storage', ...token }, 200)
    }
  }
}

/**
 * Runs 320 users, who send requests of every kind to the three servers, with 16 connections per server.
 *
 * @param servers - auth, relay and vault
 * @param onPart - called after each of the `parts`, while no request is running
 * @returns responses that are wrong
 */
export async function soak(
  servers: readonly ServerAddress[],
  requests: number,
  { parts = 1, onPart }: { parts?: number; onPart?: () => Promise<void> } = {}
): Promise<string[]> {
  const wrongAnswers: string[] = []
  let requestCount = 0
  const [auth, relay, vault] = servers as [ServerAddress, ServerAddress, ServerAddress]
  const domains = { auth: new URL(auth.serviceUrl).host, vault: new URL(vault.serviceUrl).host }
  const clients = Array.from({ length: CLIENTS }, (_, client) => {
    const open = ({ url }: ServerAddress): Connection => new Connection(Number(new URL(url).port))
    const connections = { auth: open(auth), relay: open(relay), vault: open(vault) }
    const ask: Ask = async (server, { method, path, body, token }, ...statuses) => {
      requestCount += 1
      const headers = token === undefined ? '' : `Authorization: ${token}\r\n`
      const json = body === undefined ? '' : JSON.stringify(body)
      const connection = connections[server]
      const answer = await (method === 'GET'
        ? connection.get(path, headers)
        : connection.write(method, path, json, headers))
      if (!statuses.includes(answer.status)) {
        wrongAnswers.push(`${server} ${method} ${path}: ${answer.status} ${answer.body}`)
        throw new Error(wrongAnswers.at(-1))
      }
      return answer
    }
    const draw = numbersFrom(7_919 * (client + 1))
    const users = Array.from({ length: USERS_PER_CLIENT }, (_, user) => {
      return new SoakUser(createNumberedWallet(40_000 + client * USERS_PER_CLIENT + user), domains, ask, draw)
    })
    return { connections, users, draw }
  })
  for (let part = 1; part <= parts; part += 1) {
    await Promise.all(
      clients.map(async ({ users, draw }) => {
        while (requestCount < (requests * part) / parts && wrongAnswers.length < 10) {
          await users[draw(users.length)]?.act().catch((error: unknown) => {
            if (wrongAnswers.length === 0) wrongAnswers.push(String(error))
          })
        }
      })
    )
    await onPart?.()
  }
  for (const { connections } of clients) for (const connection of Object.values(connections)) connection.close()
  return wrongAnswers
}
