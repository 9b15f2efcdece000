import { approvalStatement, formatSiweMessage, parseApprovalStatement } from '../../protocol/format-siwe-message.js'
import type { SiweMessage } from '../../protocol/format-siwe-message.js'
import { PROTOCOL } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { isWord, parseFields, parseJson } from '../wire/json.js'
import type { Setting } from './options.js'
import { encodeBase64url, encodeHex, getSubtle, utf8 } from '../wire/seal.js'
import { fetchChainId } from '../wallets/chain.js'
import { connectWallet, type Wallet } from '../wallets/wallet.js'

/** Options of a `fetch` with the session. */
export interface AuthorizedInit extends RequestInit {
  /** Whether the wallet signs the request if the service requires an approval. */
  readonly approve?: boolean
  /** Whether to prove the device's key, for routes with `deviceProof`. Works in header mode only. */
  readonly deviceProof?: boolean
  /** Replaces the client's own `fetch` for this request. It gets the absolute URL and the token. */
  readonly fetch?: typeof globalThis.fetch | undefined
}

/** A request that was refused with 403, and whose body can be sent again. */
export interface RefusedRequest {
  /** Response with status 403. Its body is not read yet. */
  readonly response: Response
  /** Absolute URL of the request. */
  readonly href: string
  /** Options of the call that was refused. */
  readonly init: RequestInit
  /** The `Request` of the call. Undefined if the call got a URL. */
  readonly request: Request | undefined
  /** Sends the request again, with the session and these options. */
  readonly send: (init: AuthorizedInit) => Promise<Response>
  /** Wallet that signs the approval. Default: the browser's. */
  readonly wallet?: Wallet | undefined
}

/**
 * Gets a request signed that requires the user's approval, and sends it again. The service provides nonce and
 * statement. The statement must be one line about exactly this request.
 *
 * @throws DidAuthClientError PROTOCOL for another statement or nonce; errors of the wallet
 */
export async function approveRequest(
  { url, network }: Setting,
  createFields: (account: Pick<SiweMessage, 'address' | 'chainId' | 'nonce'>) => SiweMessage,
  { response, href, init, request, send, wallet }: RefusedRequest
): Promise<Response> {
  const { code, nonce, statement } = parseFields(parseJson(await response.clone().text()))
  if (code !== 'ERR_APPROVAL') return response
  const { method } = new Request(href, { method: init.method ?? request?.method ?? 'GET' })
  const { pathname, search } = new URL(href)
  // A proxy may remove the path of the service's URL, so the statement may name either path.
  const paths = [pathname + search, href.startsWith(`${url}/`) ? href.slice(url.length) : '']
  const line = parseApprovalStatement(statement)?.line
  const expectedStatements = await Promise.all(
    paths.map(async (path) => approvalStatement(line, { method, path, pathHash: await computeHash(utf8(path)) }))
  )
  const text = expectedStatements.find((expected) => expected !== undefined && expected === statement)
  if (text === undefined || !isWord(nonce)) {
    throw new DidAuthClientError(PROTOCOL, { message: 'Not the approval of this request' })
  }
  const signal = init.signal ?? request?.signal
  const { body } = init
  const bodyReader = new Response(body)
  const bytes = new Uint8Array(await bodyReader.arrayBuffer())
  const requestId = await computeHash(bytes)
  const { address, signMessage } = await connectWallet(wallet, network, signal)
  const chainId = await fetchChainId(wallet, signal)
  const fields = createFields({ address, chainId, nonce })
  const message = formatSiweMessage({ ...fields, statement: text, requestId })
  const approval = JSON.stringify({ message, signature: await signMessage(message) })
  const headers = new Headers(init.headers ?? request?.headers)
  const type = bodyReader.headers.get('Content-Type')
  if (type && !headers.has('Content-Type')) headers.set('Content-Type', type)
  headers.set('DID-Approval', encodeBase64url(utf8(approval)))
  return send({ ...init, headers, ...(body && { body: bytes }), approve: false })
}

/** Computes SHA-256 in lower-case hexadecimal. */
async function computeHash(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return encodeHex(new Uint8Array(await getSubtle().digest('SHA-256', bytes)))
}
