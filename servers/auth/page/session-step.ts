import type { ClientClock, DidAuthClient, ListedSession } from 'express-did-auth/client'
import { byId, bytesOfBase64url, make, show, write } from './elements.js'
import { Step } from './step.js'
import type { PageWallet } from './wallet-step.js'

/** What the claims of an access token say. */
const ABOUT: Readonly<Record<string, string>> = {
  iss: 'who issued it: the service’s DID, whose key signed it',
  sub: 'whom it is for: your DID',
  aud: 'where it is good',
  jti: 'the token’s own id',
  sid: 'the session that it belongs to',
  use: 'an access token, and nothing else'
}
const TIMES: Readonly<Record<string, string>> = { iat: 'issued', nbf: 'good from', exp: 'good until' }

let skippedSeconds = 0

/** The client's clock. It can be set ahead, so that the client finds its access token about to end. */
export const pageClock: ClientClock = { nowSeconds: () => performance.now() / 1_000 + skippedSeconds }

export type SessionStep = {
  step: Step
  update: () => void
  showToken: (token: string) => void
  listSessions: () => Promise<void>
}

/** Log in, look at the session, log out. */
export function startSessionStep(auth: DidAuthClient, wallet: () => PageWallet | undefined): SessionStep {
  const step = new Step('session')
  /** Of the access token, from its receipt to its end. */
  let lifeSeconds = 0
  let shownToken = ''

  const secondsLeft = (): number => Math.max(0, (auth.session?.expiresAt ?? 0) - Date.now() / 1_000)

  function showTime(): void {
    if (auth.session === undefined) return
    const left = Math.floor(secondsLeft())
    const text = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')}`
    const hasEnded = 'The access token has ended; the next request refreshes'
    write('time-left', left > 0 ? `The access token is good for another ${text}` : hasEnded)
    const bar = byId('time-bar', HTMLProgressElement)
    // Cookies show no token, so its life is not known: the most that was left.
    lifeSeconds = Math.max(lifeSeconds, left)
    bar.max = Math.max(1, lifeSeconds)
    bar.value = Math.min(bar.max, left)
  }

  /** Shows what is so now. */
  function update(): void {
    const { session } = auth
    byId('session-step').toggleAttribute('data-done', session !== undefined)
    show('signed-in', session !== undefined)
    show('signed-out', session === undefined)
    write('session-did', session?.did ?? '')
    showTime()
  }

  /** Shows the claims of an access token that went over the wire. */
  function showToken(token: string): void {
    const claims = claimsOf(token)
    if (token === shownToken || claims === undefined || claims.sid !== auth.session?.sessionId) return
    shownToken = token
    const { exp, iat } = claims
    if (typeof exp === 'number' && typeof iat === 'number') lifeSeconds = exp - iat
    const rows = Object.entries(claims).map(([name, value]) => {
      const about = make('small', {}, describeClaim(name, value))
      return make('div', {}, make('dt', {}, name), make('dd', {}, String(value), about))
    })
    byId('claims').replaceChildren(...rows)
    show('claims-details', true)
    showTime()
  }

  async function listSessions(): Promise<void> {
    byId('sessions').replaceChildren(...(await auth.sessions()).map(makeItem))
  }

  function makeItem({ sessionId, createdAt, refreshedAt, isCurrent }: ListedSession): HTMLLIElement {
    const name = isCurrent ? 'This one' : 'Another'
    const times = `since ${timeOf(createdAt)}, refreshed ${timeOf(refreshedAt)}`
    const text = make('span', {}, make('code', {}, sessionId), make('small', {}, `${name}, ${times}`))
    if (isCurrent) return make('li', {}, text)
    const end = step.makeButton('End', `End session ${sessionId}`, 'End a session', async () => {
      await auth.revoke(sessionId)
      await listSessions()
      return 'Ended. Its refresh token is worth nothing now.'
    })
    return make('li', {}, text, end)
  }

  const entries = { 'log-in': ['Log in', 'logIn'], 'sign-up': ['Sign up', 'signUp'] } as const
  for (const [id, [action, verb]] of Object.entries(entries)) {
    step.onClick(id, action, async () => {
      const message = byId('siwe-text', HTMLInputElement).checked ? 'siwe' : 'login'
      await auth[verb]({ wallet: wallet()?.wallet, message })
      byId('ask-me').focus()
      await listSessions()
      return 'Logged in.'
    })
  }
  step.onClick('ask-me', 'Ask who I am', async () => {
    const answer = await auth.fetch('/me')
    if (!answer.ok) throw new Error(await answer.text())
    return 'The server knows the DID from the access token alone.'
  })
  step.onClick('refresh', 'Refresh now', async () => {
    skippedSeconds += secondsLeft()
    await auth.fetch('/me')
    return 'There are new tokens. The old refresh token is worth nothing now.'
  })
  step.onClick('log-out', 'Log out', async () => {
    await auth.logOut()
    byId('log-in').focus()
    return 'Logged out. The access token stays good until it ends; the refresh token ended at once.'
  })
  show('siwe-choice', document.documentElement.dataset.siwe === 'true')
  auth.subscribe(update)
  setInterval(showTime, 1_000)
  return { step, update, showToken, listSessions }
}

/** The claims of a JWT, for showing. A page need not verify a token that its own server gave it. */
function claimsOf(token: string): Record<string, unknown> | undefined {
  try {
    return { ...(JSON.parse(new TextDecoder().decode(bytesOfBase64url(token.split('.')[1] ?? ''))) as object) }
  } catch {
    return undefined
  }
}

/** A claim in words. */
function describeClaim(name: string, value: unknown): string {
  const time = TIMES[name]
  if (time === undefined || typeof value !== 'number') return ABOUT[name] ?? 'a claim of this service'
  return `${time} ${new Date(value * 1_000).toLocaleTimeString()}`
}

const timeOf = (seconds: number): string =>
  new Date(seconds * 1_000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' })
