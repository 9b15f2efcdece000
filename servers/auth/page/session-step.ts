import type { ClientClock, DidAuthClient, ListedSession } from 'express-did-auth/client'
import { byId, make, makeButton, onClick, say, whileBusy } from './elements.js'
import { claimsOf, describeClaim } from './claims.js'
import type { PageWallet } from './page-wallet.js'
import type { ExchangeList } from './wire-view.js'

const STATUS = 'session-status'

/** The client's clock. It can be set ahead, so that the client finds its access token about to end. */
export class PageClock implements ClientClock {
  #skippedSeconds = 0

  nowSeconds(): number {
    return performance.now() / 1_000 + this.#skippedSeconds
  }

  skipSeconds(seconds: number): void {
    this.#skippedSeconds += seconds
  }
}

export interface SessionParts {
  auth: DidAuthClient
  clock: PageClock
  exchanges: ExchangeList
  wallet: () => PageWallet | undefined
}

/** Log in, look at the session, log out. */
export class SessionStep {
  readonly #parts: SessionParts
  /** Of the access token, from its receipt to its end. */
  #lifeSeconds = 0
  #shownToken = ''

  constructor(parts: SessionParts) {
    this.#parts = parts
    const { auth, clock } = parts
    this.#on('log-in', 'Log in', async () => {
      await auth.logIn({ wallet: parts.wallet()?.wallet })
      return this.#welcome()
    })
    this.#on('sign-up', 'Sign up', async () => {
      await auth.signUp({ wallet: parts.wallet()?.wallet })
      return this.#welcome()
    })
    this.#on('ask-me', 'Ask who I am', async () => {
      const answer = await auth.fetch('/me')
      if (!answer.ok) throw new Error(await answer.text())
      return 'The server knows the DID from the access token alone.'
    })
    this.#on('refresh', 'Refresh now', async () => {
      clock.skipSeconds(this.#secondsLeft())
      await auth.fetch('/me')
      return 'There are new tokens. The old refresh token is worth nothing now.'
    })
    this.#on('log-out', 'Log out', async () => {
      await auth.logOut()
      byId('log-in', HTMLElement).focus()
      return 'Logged out. The access token stays good until it ends; the refresh token ended at once.'
    })
    auth.subscribe(() => {
      this.show()
    })
    setInterval(() => {
      this.#showTime()
    }, 1_000)
  }

  /** Shows what is so now. */
  show(): void {
    const { session } = this.#parts.auth
    byId('session-step', HTMLElement).toggleAttribute('data-done', session !== undefined)
    byId('signed-in', HTMLElement).hidden = session === undefined
    byId('signed-out', HTMLElement).hidden = session !== undefined
    byId('session-did', HTMLElement).textContent = session?.did ?? ''
    this.#showTime()
  }

  /** Shows the claims of an access token that went over the wire. */
  showToken(token: string): void {
    const { session } = this.#parts.auth
    const claims = claimsOf(token)
    if (token === this.#shownToken || claims === undefined || claims.sid !== session?.sessionId) return
    this.#shownToken = token
    const { exp, iat } = claims
    if (typeof exp === 'number' && typeof iat === 'number') this.#lifeSeconds = exp - iat
    const rows = Object.entries(claims).map(([name, value]) => {
      const about = describeClaim(name, value)
      return make('div', {}, make('dt', {}, name), make('dd', {}, String(value), make('small', {}, about)))
    })
    byId('claims', HTMLElement).replaceChildren(...rows)
    byId('claims-details', HTMLElement).hidden = false
    this.#showTime()
  }

  /** Reads the list of sessions again. */
  async listSessions(): Promise<void> {
    const items = (await this.#parts.auth.sessions()).map((session) => this.#makeItem(session))
    byId('sessions', HTMLElement).replaceChildren(...items)
  }

  async #welcome(): Promise<string> {
    byId('ask-me', HTMLElement).focus()
    await this.listSessions()
    return 'Logged in.'
  }

  #makeItem({ sessionId, createdAt, refreshedAt, isCurrent }: ListedSession): HTMLLIElement {
    const { auth, exchanges } = this.#parts
    const name = isCurrent ? 'This one' : 'Another'
    const times = `since ${timeOf(createdAt)}, refreshed ${timeOf(refreshedAt)}`
    const text = make('span', {}, make('code', {}, sessionId), make('small', {}, `${name}, ${times}`))
    if (isCurrent) return make('li', {}, text)
    const end = makeButton('End', `End session ${sessionId}`, (button) => {
      exchanges.begin('End a session')
      void whileBusy(button, STATUS, async () => {
        await auth.revoke(sessionId)
        await this.listSessions()
        return 'Ended. Its refresh token is worth nothing now.'
      })
    })
    return make('li', {}, text, end)
  }

  #on(id: string, action: string, work: () => Promise<string>): void {
    onClick(id, STATUS, () => {
      this.#parts.exchanges.begin(action)
      return work()
    })
  }

  #secondsLeft(): number {
    const { session } = this.#parts.auth
    return session === undefined ? 0 : Math.max(0, session.expiresAt - Date.now() / 1_000)
  }

  #showTime(): void {
    if (this.#parts.auth.session === undefined) return
    const left = Math.floor(this.#secondsLeft())
    const text = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')}`
    byId('time-left', HTMLElement).textContent =
      left > 0
        ? `The access token is good for another ${text}`
        : 'The access token has ended; the next request refreshes'
    const bar = byId('time-bar', HTMLProgressElement)
    // Cookies show no token, so its life is not known: the most that was left.
    this.#lifeSeconds = Math.max(this.#lifeSeconds, left)
    bar.max = Math.max(1, this.#lifeSeconds)
    bar.value = Math.min(bar.max, left)
  }
}

/** Says that a session has ended, whatever ended it. */
export function sayEnded(text: string): void {
  say(STATUS, text, 'bad')
}

const timeOf = (seconds: number): string =>
  new Date(seconds * 1_000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' })
