import { logIn, logOut, refresh, type Tokens } from './server-client.js'
import { walletOf } from './wallet.js'

const CLIENTS = 12

/** A session as its client saw it last. */
export interface LoadSession {
  /** The last one that was acknowledged. */
  refreshToken: string
  state: 'active' | 'loggedOut'
  /** Something was asked and never answered: it may have happened, or not. */
  isUncertain: boolean
}

/** Clients that log in, refresh and log out without end. */
export interface Load {
  sessions: LoadSession[]
  /** Writes that were acknowledged so far. */
  acknowledged(): number
  /** Answers that no client should get: everything but 200. */
  wrongAnswers: string[]
  /** Asks for nothing more, and waits until every client has its answer, or knows that there is none. */
  stop(): Promise<void>
}

let wallets = 10_000

/** Puts a server under load. A client whose connection breaks gives up, and leaves its session as uncertain. */
export function startLoad(url: string, domain: string): Load {
  const sessions: LoadSession[] = []
  const wrongAnswers: string[] = []
  let acknowledged = 0
  let isStopping = false

  const live = async (): Promise<void> => {
    const tokens = await logIn(url, walletOf((wallets += 1)), domain)
    const session: LoadSession = { refreshToken: tokens.refreshToken, state: 'active', isUncertain: false }
    sessions.push(session)
    acknowledged += 1
    const turns = sessions.length % 4
    let { accessToken } = tokens
    for (let turn = 0; turn < turns && !isStopping; turn += 1) {
      session.isUncertain = true
      const { status, text } = await refresh(url, session.refreshToken)
      session.isUncertain = false
      if (status !== 200) throw new Error(`refresh: ${status} ${text}`)
      const next = JSON.parse(text) as Tokens
      session.refreshToken = next.refreshToken
      accessToken = next.accessToken
      acknowledged += 1
    }
    if (sessions.length % 5 !== 0 || isStopping) return
    session.isUncertain = true
    const { status, text } = await logOut(url, accessToken)
    session.isUncertain = false
    if (status !== 200) throw new Error(`logout: ${status} ${text}`)
    session.state = 'loggedOut'
    acknowledged += 1
  }

  const client = async (): Promise<void> => {
    while (!isStopping) {
      try {
        await live()
      } catch (error) {
        // A connection that breaks is a TypeError of fetch; a body that breaks off, one of several.
        if (error instanceof Error && /^(?:login|refresh|logout): /.test(error.message))
          wrongAnswers.push(error.message)
        return
      }
    }
  }
  const clients = Array.from({ length: CLIENTS }, client)

  return {
    sessions,
    wrongAnswers,
    acknowledged: () => acknowledged,
    stop: async () => {
      isStopping = true
      await Promise.all(clients)
    }
  }
}

/** What was acknowledged and is no longer so. Uses the refresh tokens up. */
export async function findLosses(url: string, sessions: readonly LoadSession[]): Promise<string[]> {
  const losses: string[] = []
  const queue = [...sessions]
  const work = async (): Promise<void> => {
    for (let session = queue.pop(); session !== undefined; session = queue.pop()) {
      const { status, text } = await refresh(url, session.refreshToken)
      const expected = session.isUncertain ? [200, 401] : session.state === 'active' ? [200] : [401]
      if (!expected.includes(status)) losses.push(`${session.state}: ${status} ${text}`)
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, work))
  return losses
}
