import { setTimeout as pause } from 'node:timers/promises'
import { benchWallet, type BenchWallet } from '../bench-wallet.js'
import { Connection, type Answer } from '../http-client.js'
import { seededRandom, exponential } from './queueing.js'

/** Requests without an answer. A pool accepts 200 verbs that wait. */
const MOST_AT_ONCE = 64

interface Session {
  accessToken: string
  refreshToken: string
  isBusy: boolean
}

class RefusedError extends Error {}

/** What the load does. A login asks for its challenge first, as clients do. */
export const actions = ['challenge', 'logIn', 'refresh', 'guarded'] as const
export type Action = (typeof actions)[number]

/** Clients of all instances. A balancer deals their requests out in turn. */
export class OfferedLoad {
  readonly #ports: readonly number[]
  readonly #random: () => number
  readonly #idle: Connection[][]
  readonly #sessions: Session[] = []
  /** Answers 503. */
  refused = 0
  #requests = 0
  #wallets = 0

  constructor(ports: readonly number[], seed = 1) {
    this.#ports = ports
    this.#random = seededRandom(seed)
    this.#idle = ports.map(() => [])
    this.#wallets = Math.floor(this.#random() * 1e9)
  }

  /** Logs users in, whose sessions the actions use. */
  async prepare(sessions: number): Promise<void> {
    const run = async (): Promise<void> => {
      while (this.#sessions.length < sessions) {
        await this.#attempt(async () => {
          this.#sessions.push(await this.#logIn())
        })
      }
    }
    await Promise.all(Array.from({ length: 16 }, run))
  }

  /**
   * Requests that come at random times, whether those before were answered or not.
   *
   * @param accessTokens - for guarded requests, each once, instead of those of the sessions
   * @returns how many of each action were done
   */
  async offer(
    perSecond: Partial<Record<Action, number>>,
    seconds: number,
    accessTokens: string[] = []
  ): Promise<Record<Action, number>> {
    const done = { challenge: 0, logIn: 0, refresh: 0, guarded: 0 }
    const running = new Set<Promise<void>>()
    const begin = performance.now()
    const offerOne = async (action: Action): Promise<void> => {
      const mean = 1000 / (perSecond[action] ?? 0)
      for (let at = exponential(mean, this.#random); at < seconds * 1000; at += exponential(mean, this.#random)) {
        const early = at - (performance.now() - begin)
        if (early > 0) await pause(early)
        // On a machine that stood still, a real balancer would not send all that came meanwhile at once either.
        while (running.size >= MOST_AT_ONCE) await Promise.race(running)
        const work = this.#attempt(() => this.#act(action, accessTokens.pop())).then((isDone) => {
          if (isDone) done[action] += 1
          running.delete(work)
        })
        running.add(work)
      }
      await pause(Math.max(0, seconds * 1000 - (performance.now() - begin)))
    }
    await Promise.all(actions.map(offerOne))
    await Promise.all(running)
    return done
  }

  /** As many requests as `clients` can make that wait for each answer. @returns how many a second */
  async saturate(action: Action, clients: number, seconds: number, accessTokens: string[] = []): Promise<number> {
    const begin = performance.now()
    const end = begin + seconds * 1000
    let count = 0
    await Promise.all(
      Array.from({ length: clients }, async () => {
        while (performance.now() < end) {
          if (await this.#attempt(() => this.#act(action, accessTokens.pop()))) count += 1
        }
      })
    )
    return (count * 1000) / (performance.now() - begin)
  }

  close(): void {
    for (const connection of this.#idle.flat()) connection.close()
  }

  /** @returns false where it was refused because the service is busy, as it is when its machine stands still */
  async #attempt(run: () => Promise<void>): Promise<boolean> {
    try {
      await run()
      return true
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error
      this.refused += 1
      return false
    }
  }

  /** @param accessToken - for a guarded request, instead of that of a session */
  async #act(action: Action, accessToken?: string): Promise<void> {
    if (action === 'challenge') await this.#askChallenge(this.#nextWallet())
    else if (action === 'logIn') Object.assign(this.#anySession(), await this.#logIn(), { isBusy: false })
    else if (action === 'refresh') await this.#refresh()
    else {
      const token = accessToken ?? this.#anySession().accessToken
      await this.#send((connection, headers) =>
        connection.get('/guarded', `${headers}Authorization: DIDAuth ${token}\r\n`)
      )
    }
  }

  async #refresh(): Promise<void> {
    const session = this.#anySession()
    // It stays so where the refresh is refused: it may have been done. A login takes its place.
    session.isBusy = true
    const { refreshToken } = session
    const { body } = await this.#post('/refresh-token', { refreshToken })
    // A login may have taken its place.
    if (session.refreshToken === refreshToken) Object.assign(session, JSON.parse(body) as Session, { isBusy: false })
  }

  async #logIn(): Promise<Session> {
    const wallet = this.#nextWallet()
    const challenge = await this.#askChallenge(wallet)
    const sig = wallet.personalSign(`Login to bench.example\nVerification code: ${challenge}`)
    const { body } = await this.#post('/auth', { did: wallet.did, sig })
    return { ...(JSON.parse(body) as Session), isBusy: false }
  }

  async #askChallenge({ did }: BenchWallet): Promise<string> {
    const { body } = await this.#post('/request-auth', { did })
    return (JSON.parse(body) as { challenge: string }).challenge
  }

  #nextWallet(): BenchWallet {
    this.#wallets += 1
    return benchWallet(this.#wallets)
  }

  /** A session that no refresh is using: its token works once. */
  #anySession(): Session {
    const first = Math.floor(this.#random() * this.#sessions.length)
    for (let index = first; index < first + this.#sessions.length; index += 1) {
      const session = this.#sessions[index % this.#sessions.length]!
      if (!session.isBusy) return session
    }
    throw new Error('no session is left')
  }

  #post(path: string, body: object): Promise<Answer> {
    return this.#send((connection, headers) => connection.post(path, body, headers))
  }

  async #send(send: (connection: Connection, headers: string) => Promise<Answer>): Promise<Answer> {
    const instance = this.#requests++ % this.#ports.length
    const idle = this.#idle[instance]!
    const connection = idle.pop() ?? (await Connection.open(this.#ports[instance]!))
    const part = (): number => Math.floor(this.#random() * 256)
    const answer = await send(connection, `X-Forwarded-For: 10.${part()}.${part()}.${part()}\r\n`)
    idle.push(connection)
    if (answer.status === 503) throw new RefusedError()
    if (answer.status !== 200) throw new Error(`expected 200, got ${answer.status}: ${answer.body}`)
    return answer
  }
}
