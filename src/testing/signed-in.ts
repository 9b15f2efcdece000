import { once } from 'node:events'
import { createServer, Server, type RequestListener } from 'node:http'
import { acceptedLoginDomains, loginMessage } from '../protocol/login-message.js'
import { readField } from '../protocol/json.js'
import { sendApproved } from './approve.js'
import { findMounts } from './find-mount.js'
import type { TestWallet } from './wallet.js'

/** An application of Express or of `node:http`, a server, or the URL of one that runs. */
export type AppUnderTest = RequestListener | Server | string

/** Paths of the login's routes. By default they are found in the application, or at the usual paths. */
export interface SignedInOptions {
  /** The path of the router that the routes are on, such as `/api`; `''` for none. */
  mountPath?: string | undefined
  /** The option of `setupDidAuth`. Default: the application's, else `/request-auth`. */
  requestAuthPath?: string | undefined
  /** The option of `setupDidAuth`. Default: the application's, else `/auth`. */
  authPath?: string | undefined
}

/** `fetch` of a user who is logged in. */
export interface SignedInFetch {
  /**
   * `fetch` with the user's token or cookies. A path is one of the application. With `approve: true` the wallet signs a
   * request that the service wants approved, and it is sent once more.
   */
  (path: string, init?: RequestInit & { approve?: boolean }): Promise<Response>
  /** URL at which the application listens, such as `http://127.0.0.1:40123`. */
  readonly url: string
  /** Headers that authenticate the user: `Authorization`, `Cookie`, or both. For supertest: `.set(fetch.headers)`. */
  readonly headers: Readonly<Record<string, string>>
}

const urls = new WeakMap<RequestListener | Server, Promise<string>>()

/**
 * Logs a wallet in as a client does, for the domain of the application's own `serviceUrl`. An application that does not
 * listen yet gets a port; nothing has to be closed. A service of this process is found below any path, and is asked
 * nothing before the login; otherwise the usual paths are tried.
 *
 * @param options - needed where the routes are not found
 * @throws Error with status and text of the answer, when the login is refused
 * @example
 * const fetch = await signedIn(app, wallet('alice'))
 * const answer = await fetch('/profile')
 * @example
 * const fetch = await signedIn('http://localhost:3000', wallet('alice'), { mountPath: '/service' })
 */
export async function signedIn(
  app: AppUnderTest,
  wallet: Pick<TestWallet, 'did' | 'signMessage'>,
  options: SignedInOptions = {}
): Promise<SignedInFetch> {
  const url = await findUrl(app)
  const post = (path: string, body: object): Promise<Response> =>
    fetch(url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })
  const { domain, requestAuthPath, authPath } = await findLogin(app, options, (path) => post(path, {}))
  const asked = await assertGood(await post(requestAuthPath, { did: wallet.did }))
  const challenge = String(readField(await asked.json(), 'challenge'))
  const sig = await wallet.signMessage(loginMessage(domain, challenge))
  const headers = await readCredentials(await assertGood(await post(authPath, { did: wallet.did, sig })))
  const fetchAsUser: (...request: Parameters<SignedInFetch>) => Promise<Response> = async (path, given = {}) => {
    const { approve = false, ...init } = given
    const send = (request: RequestInit): Promise<Response> => {
      const all = new Headers(request.headers)
      for (const [name, value] of Object.entries(headers)) if (!all.has(name)) all.set(name, value)
      return fetch(url + path, { ...request, headers: all })
    }
    return approve ? sendApproved({ wallet, domain }, init, send) : send(init)
  }
  return Object.assign(fetchAsUser, { url, headers })
}

/** Facts about a service that a login needs: the domain that wallets sign, and the paths of the routes. */
interface Login {
  domain: string
  requestAuthPath: string
  authPath: string
}

async function findLogin(
  app: AppUnderTest,
  { mountPath, ...paths }: SignedInOptions,
  ask: (path: string) => Promise<Response>
): Promise<Login> {
  const inspected: unknown = app instanceof Server ? app.listeners('request')[0] : app
  const found = findMounts(inspected)
  const mounts = mountPath === undefined ? found : found.filter(({ path }) => path === mountPath)
  const [{ path, service } = { path: mountPath ?? '' }] = mounts
  if (service !== undefined && paths.requestAuthPath === undefined && paths.authPath === undefined) {
    const { requestAuthPath, authPath } = service
    return { domain: findDomain(service.serviceUrl), ...below(path, { requestAuthPath, authPath }) }
  }
  const { requestAuthPath = '/request-auth', authPath = '/auth' } = paths
  const tried = mountPath === undefined ? ['', ...mounts.map((mount) => mount.path)] : [mountPath]
  let first: Response | undefined
  for (const candidate of new Set(tried)) {
    const login = below(candidate, { requestAuthPath, authPath })
    const answer = await ask(login.requestAuthPath)
    first ??= answer
    // The refusal of a request without DID names the service.
    const realm = /^DIDAuth realm="([^"]*)"$/.exec(answer.headers.get('www-authenticate') ?? '')?.[1]
    if (realm !== undefined) return { domain: findDomain(realm), ...login }
  }
  const { url = '', status = 0 } = first ?? {}
  const remedy = "give { mountPath: '/api' } or the paths of the login"
  throw new Error(`${url} answers ${status} instead of a 401 of express-did-auth: ${remedy}`)
}

function below(mountPath: string, { requestAuthPath, authPath }: Omit<Login, 'domain'>): Omit<Login, 'domain'> {
  const start = mountPath.replace(/\/$/, '')
  return { requestAuthPath: start + requestAuthPath, authPath: start + authPath }
}

function findDomain(serviceUrl: string): string {
  return acceptedLoginDomains(serviceUrl, [])[0] ?? serviceUrl
}

async function assertGood(answer: Response): Promise<Response> {
  if (answer.ok) return answer
  throw new Error(`The login was refused: ${answer.status} ${await answer.text()}`)
}

async function readCredentials(answer: Response): Promise<Record<string, string>> {
  const cookies = answer.headers.getSetCookie().map((cookie) => cookie.split(';', 1).join())
  // If the tokens are cookies, the body is empty. Other cookies are set by the application's own middleware.
  const body = await answer.text()
  return {
    ...(body !== '' && { Authorization: `DIDAuth ${String(readField(JSON.parse(body), 'accessToken'))}` }),
    ...(cookies.length > 0 && { Cookie: cookies.join('; ') })
  }
}

async function findUrl(app: AppUnderTest): Promise<string> {
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
