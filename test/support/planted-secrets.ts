import { ask, post, refresh, signedLogin, type Tokens } from './server-client.js'
import { exchange } from './malformed.js'
import { createNumberedWallet } from './wallet.js'

const USERS = 6

/**
 * Uses a server in every way that carries something secret, well-formed and not, and tells what must not be in its log:
 * challenges, signatures, tokens, the DIDs of its users, and a mark for each part of a request.
 */
export async function plantSecrets(url: string, domain: string): Promise<string[]> {
  const secrets: string[] = []
  for (let user = 1; user <= USERS; user += 1) {
    const wallet = createNumberedWallet(500 + user)
    const { challenge, sig } = await signedLogin(url, wallet, domain)
    const { text } = await post(`${url}/auth`, { did: wallet.did, sig })
    const tokens = JSON.parse(text) as Tokens
    const next = JSON.parse((await refresh(url, tokens.refreshToken)).text) as Tokens
    // Once more, after its use: a signature and a token that are refused.
    await post(`${url}/auth`, { did: wallet.did, sig })
    await refresh(url, tokens.refreshToken)
    await ask(`${url}/request-auth/${wallet.did}`)
    const bearers = [`DIDAuth ${next.accessToken}`, `DIDAuth ${next.accessToken}x`, `Bearer ${next.accessToken}`]
    for (const Authorization of bearers) await ask(`${url}/me`, { headers: { Authorization } })
    const [, payload = '', signature = ''] = next.accessToken.split('.')
    secrets.push(wallet.did.slice(-40), challenge, sig, tokens.refreshToken, next.refreshToken, payload, signature)
  }

  const mark = (part: string): string => {
    const secret = `planted-in-${part}-${secrets.length}`
    secrets.push(secret)
    return secret
  }
  await ask(`${url}/${mark('path')}?token=${mark('query')}`)
  await ask(`${url}/me`, {
    headers: {
      Authorization: mark('authorization'),
      Cookie: `authorization=${mark('cookie')}`,
      'X-Any': mark('header')
    }
  })
  await ask(`${url}/me`, { headers: { 'User-Agent': mark('agent'), Origin: `https://${mark('origin')}.example` } })
  await post(`${url}/auth`, { did: mark('did'), sig: mark('sig') })
  await post(`${url}/signup`, {
    did: createNumberedWallet(1).did,
    sig: '0x',
    credentials: [`${mark('credential')}.b.c`]
  })
  await post(`${url}/refresh-token`, { refreshToken: mark('refresh-token') })
  const json = { 'Content-Type': 'application/json' }
  await ask(`${url}/auth`, { method: 'POST', headers: json, body: `{"did":"${mark('broken-json')}` })
  const port = Number(new URL(url).port)
  for (const bytes of [
    `${mark('raw')}\r\n\r\n`,
    `GET http://[::1/${mark('absolute')} HTTP/1.1\r\nHost: a\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: a\r\nX: ${mark('large')}${'a'.repeat(20_000)}\r\n\r\n`,
    `POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${mark('chunk')}`
  ]) {
    await exchange(port, Buffer.from(bytes))
  }
  return secrets
}
