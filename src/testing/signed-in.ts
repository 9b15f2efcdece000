import { once } from 'node:events'
import { createServer, Server, type RequestListener } from 'node:http'
import { acceptedLoginDomains, loginMessage } from '../protocol/login-message.js'
import { fieldOf } from '../protocol/json.js'
import type { TestWallet } from './wallet.js'

/** An application of Express or of `node:http`, a server, or the URL of one that runs. */
export type AppUnderTest = RequestListener | Server | string

export interface SignedInOptions {
  /** Default `/request-auth`, as for `setupDidAuth`; with the path of the router of the routes, if any. */
  requestAuthPath?: string | undefined
  /** Default `/auth`. */
  authPath?: string | undefined
}

/** `fetch` of a user who is logged in. */
export interface SignedInFetch {
  /** `fetch` with the user's token or cookies. A path is one of the application. */
  (path: string, init?: RequestInit): Promise<Response>
  /** Where the application listens, such as `http://127.0.0.1:40123`. */
  readonly url: string
  /** What makes a request the user's: `Authorization`, `Cookie`, or both. For supertest: `.set(fetch.headers)`. */
  readonly headers: Readonly<Record<string, string>>
}

const urls = new WeakMap<RequestListener | Server, Promise<string>>()

/**
 * Logs a wallet in as a client does, for the domain of the application's own `serviceUrl`. An application that does not
 * listen yet gets a port; nothing has to be closed.
 *
 * @throws Error with status and text of the answer, when the login is refused
 * @example
 * const fetch = await signedIn(app, wallet('alice'))
 * const answer = await fetch('/profile')
 */
export async function signedIn(
  app: AppUnderTest,
  wallet: Pick<TestWallet, 'did' | 'signMessage'>,
  { requestAuthPath = '/request-auth', authPath = '/auth' }: SignedInOptions = {}
): Promise<SignedInFetch> {
  const url = await urlOf(app)
  const post = (path: string, body: object): Promise<Response> =>
    fetch(url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })
  const domain = domainOf(await post(requestAuthPath, {}))
  const asked = await assertGood(await post(requestAuthPath, { did: wallet.did }))
  const challenge = String(fieldOf(await asked.json(), 'challenge'))
  const sig = await wallet.signMessage(loginMessage(domain, challenge))
  const headers = await credentialsOf(await assertGood(await post(authPath, { did: wallet.did, sig })))
  const fetchAsUser = (path: string, init: RequestInit = {}): Promise<Response> => {
    const all = new Headers(init.headers)
    for (const [name, value] of Object.entries(headers)) if (!all.has(name)) all.set(name, value)
    return fetch(url + path, { ...init, headers: all })
  }
  return Object.assign(fetchAsUser, { url, headers })
}

/** The refusal of a request without DID names the service. */
function domainOf(refusal: Response): string {
  const realm = /^DIDAuth realm="([^"]*)"$/.exec(refusal.headers.get('www-authenticate') ?? '')?.[1]
  if (realm === undefined) {
    throw new Error(`${refusal.url} answers ${refusal.status} instead of a 401 of express-did-auth: is the path right?`)
  }
  return acceptedLoginDomains(realm, [])[0] ?? realm
}

async function assertGood(answer: Response): Promise<Response> {
  if (answer.ok) return answer
  throw new Error(`The login was refused: ${answer.status} ${await answer.text()}`)
}

async function credentialsOf(answer: Response): Promise<Record<string, string>> {
  const cookies = answer.headers.getSetCookie().map((cookie) => cookie.split(';', 1).join())
  // Where our tokens are cookies, the body is empty. Other cookies are those of the application's own middleware.
  const body = await answer.text()
  return {
    ...(body !== '' && { Authorization: `DIDAuth ${String(fieldOf(JSON.parse(body), 'accessToken'))}` }),
    ...(cookies.length > 0 && { Cookie: cookies.join('; ') })
  }
}

async function urlOf(app: AppUnderTest): Promise<string> {
  if (typeof app === 'string') return app.replace(/\/+$/, '')
  const url = urls.get(app) ?? listen(app instanceof Server ? app : createServer(app))
  urls.set(app, url)
  return url
}

/** Lets a server listen, unless it does, without keeping the process alive. */
async function listen(server: Server): Promise<string> {
  if (!server.listening) {
    server.on('connection', (socket) => socket.unref())
    server.listen(0, '127.0.0.1').unref()
    await once(server, 'listening')
  }
  const address = server.address()
  if (address === null || typeof address === 'string') throw new TypeError('give a server that listens on a port')
  return `http://127.0.0.1:${address.port}`
}
