import { pureCurve } from '../adapters/curve-pure.js'
import { encodeHex } from '../protocol/encoding.js'
import { formatSiweMessage } from '../protocol/format-siwe-message.js'
import { readField } from '../protocol/json.js'
import type { TestWallet } from './wallet.js'

/** The signer of an approval, and the domain that the text names. */
export interface Approver {
  wallet: Pick<TestWallet, 'did' | 'signMessage'>
  domain: string
}

/**
 * Sends a request and, where its user has to approve it, signs the service's statement and sends it again. A client
 * compares the statement with its request before that; a test compares the line itself.
 *
 * @returns the last answer
 */
export async function sendApproved(
  { wallet, domain }: Approver,
  init: RequestInit,
  send: (init: RequestInit) => Promise<Response>
): Promise<Response> {
  const whole = new Response(init.body)
  const bytes = new Uint8Array(await whole.arrayBuffer())
  const headers = new Headers(init.headers)
  const type = whole.headers.get('Content-Type')
  if (type !== null && !headers.has('Content-Type')) headers.set('Content-Type', type)
  if (!headers.has('Accept')) headers.set('Accept', 'application/problem+json')
  const request = { ...init, headers, ...(bytes.length > 0 && { body: bytes }) }

  const answer = await send(request)
  const refusal: unknown =
    answer.status === 403
      ? await answer
          .clone()
          .json()
          .catch(() => undefined)
      : undefined
  if (readField(refusal, 'code') !== 'ERR_APPROVAL') return answer
  const message = formatSiweMessage({
    domain,
    uri: `https://${domain}`,
    address: wallet.did.slice(wallet.did.lastIndexOf(':') + 1),
    chainId: 30,
    statement: String(readField(refusal, 'statement')),
    nonce: String(readField(refusal, 'nonce')),
    issuedAt: new Date().toISOString(),
    requestId: encodeHex(pureCurve.sha256(bytes))
  })
  const approval = JSON.stringify({ message, signature: await wallet.signMessage(message) })
  headers.set('DID-Approval', Buffer.from(approval).toString('base64url'))
  return send(request)
}
