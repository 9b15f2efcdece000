import { pureCurve } from '../adapters/curve-pure.js'
import { encodeHex } from '../protocol/encoding.js'
import { formatSiweMessage } from '../protocol/format-siwe-message.js'
import { readField } from '../protocol/json.js'
import type { TestWallet } from './wallet.js'

/** Signer of an approval, and the domain in its message. */
export interface Approver {
  wallet: Pick<TestWallet, 'did' | 'signMessage'>
  domain: string
}

/**
 * Sends a request. If its user has to approve it, signs the service's statement and sends it again. Real clients first
 * compare the statement with their request; here the test does.
 *
 * @returns the answer to the last request
 */
export async function sendApproved(
  { wallet, domain }: Approver,
  init: RequestInit,
  send: (init: RequestInit) => Promise<Response>
): Promise<Response> {
  const bodyReader = new Response(init.body)
  const bytes = new Uint8Array(await bodyReader.arrayBuffer())
  const headers = new Headers(init.headers)
  const type = bodyReader.headers.get('Content-Type')
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
