import { once } from 'node:events'
import { createServer, Server, type RequestListener } from 'node:http'
import { acceptedLoginDomains, loginMessage } from '../protocol/login-message.js'
import { readField } from '../protocol/json.js'
import { sendApproved } from './approve.js'
import { findMounts } from './find-mount.js'
import type { TestWallet } from './wallet.js'

/** An Express or `node:http` application, a server, or the URL of a running application. */
export type AppUnderTest = RequestListener | Server | string

/** Paths of the login routes. By default they are found in the application, or common paths are tried. */
export interface SignedInOptions {
  /** Path prefix of the login routes, such as `/api`; `''` for no prefix. */
  mountPath?: string | undefined
  /** `requestAuthPath` of `setupDidAuth`. Default: as in the app if `authPath` is absent, else `/request-auth`. */
  requestAuthPath?: string | undefined
  /** `authPath` of `setupDidAuth`. Default: as in the app if `requestAuthPath` is absent, else `/auth`. */
  authPath?: string | undefined
}

/** `fetch` as a logged in user. */
export interface SignedInFetch {
  /**
   * Sends a request to a path of the application, with the user's token or cookies. With `approve: true`, the wallet
   * signs the approval if the service requires one, and the request is sent again with it.
   */
  (path: string, init?: RequestInit & { approve?: boolean }): Promise<Response>
  /** URL at which the application listens, such as `http://127.0.0.1:40123`. */
  readonly url: string
  /** Headers that authenticate the user: `Authorization`, `Cookie`, or both. With supertest: `.set(fetch.headers)`. */
  readonly headers: Readonly<Record<string, string>>
}

const urls = new WeakMap<RequestListener | Server, Promise<string>>()

/**
 * Logs in with a wallet as a client does, and returns a `fetch` for that user. The wallet signs the domain of the
 * service's `serviceUrl`.
 *
 * An application that does not listen yet is started on a free port; you need not close it. In an application of this
 * process, the login routes are found below any path. Otherwise common paths are requested.
 *
 * @param options - paths of the login routes, needed only if they are not found
 * @throws Error with status and text of the answer if the login is refused, or if the routes are not found
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
  const challengeAnswer = await assertAccepted(await post(requestAuthPath, { did: wallet.did }))
  const challenge = String(readField(await challengeAnswer.json(), 'challenge'))
  const sig = await wallet.signMessage(loginMessage(domain, challenge))
  const headers = await readCredentials(await assertAccepted(await post(authPath, { did: wallet.did, sig })))
  const fetchAsUser: (...request: Parameters<SignedInFetch>) => Promise<Response> = async (path, options = {}) => {
    const { approve = false, ...init } = options
    const send = (request: RequestInit): Promise<Response> => {
      const allHeaders = new Headers(request.headers)
      for (const [name, value] of Object.entries(headers)) if (!allHeaders.has(name)) allHeaders.set(name, value)
      return fetch(url + path, { ...request, headers: allHeaders })
    }
    return approve ? sendApproved({ wallet, domain }, init, send) : send(init)
  }
  return Object.assign(fetchAsUser, { url, headers })
}

/** Data for a login: the domain that wallets sign, and the paths of the routes. */
interface Login {
  domain: string
  requestAuthPath: string
  authPath: string
}

async function findLogin(
  app: AppUnderTest,
  { mountPath, ...paths }: SignedInOptions,
  postEmpty: (path: string) => Promise<Response>
): Promise<Login> {
  const listener: unknown = app instanceof Server ? app.listeners('request')[0] : app
  const allMounts = findMounts(listener)
  const mounts = mountPath === undefined ? allMounts : allMounts.filter(({ path }) => path === mountPath)
  const [{ path, service } = { path: mountPath ?? '' }] = mounts
  if (service !== undefined && paths.requestAuthPath === undefined && paths.authPath === undefined) {
    const { requestAuthPath, authPath } = service
    return { domain: findDomain(service.serviceUrl), ...addPrefix(path, { requestAuthPath, authPath }) }
  }
  const { requestAuthPath = '/request-auth', authPath = '/auth' } = paths
  const candidates = mountPath === undefined ? ['', ...mounts.map((mount) => mount.path)] : [mountPath]
  let firstAnswer: Response | undefined
  for (const candidate of new Set(candidates)) {
    const login = addPrefix(candidate, { requestAuthPath, authPath })
    const answer = await postEmpty(login.requestAuthPath)
    firstAnswer ??= answer
    // The route refuses a request without a DID with 401, and names the `serviceUrl` as the realm.
    const realm = /^DIDAuth realm="([^"]*)"$/.exec(answer.headers.get('www-authenticate') ?? '')?.[1]
    if (realm !== undefined) return { domain: findDomain(realm), ...login }
  }
  const { url = '', status = 0 } = firstAnswer ?? {}
  const remedy = "pass the path of the login routes, such as { mountPath: '/api' }, or requestAuthPath and authPath"
  throw new Error(`${url} answered ${status} instead of a 401 of express-did-auth: ${remedy}`)
}

function addPrefix(mountPath: string, { requestAuthPath, authPath }: Omit<Login, 'domain'>): Omit<Login, 'domain'> {
  const start = mountPath.replace(/\/$/, '')
  return { requestAuthPath: start + requestAuthPath, authPath: start + authPath }
}

function findDomain(serviceUrl: string): string {
  return acceptedLoginDomains(serviceUrl, [])[0] ?? serviceUrl
}

async function assertAccepted(answer: Response): Promise<Response> {
  if (answer.ok) return answer
  throw new Error(`The login was refused: ${answer.status} ${await answer.text()}`)
}

async function readCredentials(answer: Response): Promise<Record<string, string>> {
  const cookies = answer.headers.getSetCookie().map((cookie) => cookie.split(';', 1).join())
  // If the tokens are cookies, the body is empty. The application's middleware may set other cookies.
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

/** Makes a server listen on a free port if it does not listen yet, without keeping the process alive. */
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
