import type { ClientClock, DidAuthClient, ListedSession } from 'express-did-auth-client'
import { makeButton, onClick, showAnswer } from './answer.js'
import { getElement, make, show, write } from './elements.js'
import { drawIdenticon } from './identicon.js'
import type { Exchange } from './wire.js'
import type { PageWallet } from './wallet-step.js'

/** Explanations of the claims of an access token, for users. */
const ABOUT: Readonly<Record<string, string>> = {
  iss: 'issuer: the service’s DID, whose private key signed the token',
  sub: 'subject: your DID',
  aud: 'audience: the service that accepts the token',
  jti: 'id of the token',
  sid: 'id of your session',
  use: 'purpose: an access token',
  cnf: 'confirmation: the key of this device, which a refresh has to prove',
  iat: 'issued at',
  nbf: 'valid from',
  exp: 'expires at'
}
const IS_TIME = /^(?:iat|nbf|exp)$/

let skippedSeconds = 0

/** The client's clock. "Refresh now" sets it ahead, so that the client considers its access token expired. */
export const pageClock: ClientClock = { nowSeconds: () => performance.now() / 1_000 + skippedSeconds }

/** Starts the step with login, session and logout. @returns a function that shows the claims of a sent access token */
export function startSessionStep(
  auth: DidAuthClient,
  wallet: () => PageWallet | undefined
): (exchange: Exchange) => void {
  let shownToken = ''
  let shownId: string | undefined

  auth.subscribe((session) => {
    write('session-did', session?.did ?? '')
    getElement('session-picture', HTMLImageElement).src = drawIdenticon(session?.did ?? '')
    show('bound', session?.isDeviceBound === true)
    write('valid-until', session === undefined ? '' : formatTime(session.expiresAt))
    if (shownId === session?.sessionId) return
    shownId = session?.sessionId
    show('claims-details', false)
    getElement('sessions').replaceChildren()
    if (session !== undefined) listSessions().catch(() => undefined)
  })

  function showToken({ requestHeaders }: Exchange): void {
    const token = requestHeaders.find(([name]) => name === 'authorization')?.[1].split('DIDAuth ')[1] ?? ''
    if (token === '' || token === shownToken) return
    const claims = readClaims(token)
    if (claims.sid !== auth.session?.sessionId) return
    shownToken = token
    const rows = Object.entries(claims).map(([name, value]) => {
      const time = IS_TIME.test(name) ? ` ${formatTime(Number(value))}` : ''
      const about = make('small', {}, (ABOUT[name] ?? 'a claim of this service') + time)
      const text = typeof value === 'string' ? value : JSON.stringify(value)
      return make('div', {}, make('dt', {}, name), make('dd', {}, text, about))
    })
    getElement('claims').replaceChildren(...rows)
    show('claims-details', true)
  }

  async function listSessions(): Promise<void> {
    getElement('sessions').replaceChildren(...(await auth.sessions()).map(makeItem))
  }

  function makeItem({ sessionId, createdAt, refreshedAt, isCurrent, description }: ListedSession): HTMLLIElement {
    const isBound = isCurrent && auth.session?.isDeviceBound
    const name = isBound ? 'This session, on this device' : isCurrent ? 'This session' : 'Another session'
    const times = `since ${formatTime(createdAt)}, refreshed ${formatTime(refreshedAt)}`
    const [title = '', ...details] = [description ?? [], name, times].flat()
    const id = make('small', {}, make('code', {}, sessionId))
    const text = make('span', {}, make('strong', {}, title), make('small', {}, details.join(', ')), id)
    if (isCurrent) return make('li', {}, text)
    const end = makeButton('End', `End ${description ?? 'session'} ${sessionId}`, async () => {
      await auth.revoke(sessionId)
      await listSessions()
      return 'Ended. Its refresh token no longer works.'
    })
    return make('li', {}, text, end)
  }

  const entries = { 'log-in': 'logIn', 'sign-up': 'signUp' } as const
  for (const [id, verb] of Object.entries(entries)) {
    onClick(id, async () => {
      const message = getElement('siwe-text', HTMLInputElement).checked ? 'siwe' : 'login'
      const signer = wallet()
      await auth[verb]({ wallet: signer?.wallet, message })
      // The user has chosen another wallet during the login.
      if (wallet() !== signer) return auth.logOut()
      getElement('ask-me').focus()
      return 'Logged in.'
    })
  }
  onClick('ask-me', async () => {
    const answer = await auth.fetch('/me')
    if (!answer.ok) throw new Error(await answer.text())
    return 'The server knows the DID from the access token only.'
  })
  onClick('refresh', async () => {
    skippedSeconds += Math.max(0, (auth.session?.expiresAt ?? 0) - Date.now() / 1_000)
    await auth.fetch('/me')
    return 'You have new tokens. The previous refresh token no longer works.'
  })
  onClick('log-out', async () => {
    await auth.logOut()
    getElement('log-in').focus()
    const text = 'Logged out. The refresh token no longer works. The access token is valid until it expires.'
    showAnswer(getElement('session-status'), text, 'success')
  })
  return showToken
}

/** Reads the claims of a JWT to show them. The page trusts its own server, so it does not verify the token. */
function readClaims(token: string): Record<string, unknown> {
  const binary = atob((token.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/'))
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0))
  return { ...(JSON.parse(new TextDecoder().decode(bytes)) as object) }
}

function formatTime(seconds: number): string {
  const [time, now] = [new Date(seconds * 1_000), new Date()]
  return time.toDateString() === now.toDateString() ? time.toLocaleTimeString() : time.toLocaleString()
}
