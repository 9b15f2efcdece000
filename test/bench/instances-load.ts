import { benchWallet, type BenchWallet } from './bench-wallet.js'
import { ConnectionPool, type Answer, type Connection } from './http-client.js'

interface Session {
  accessToken: string
  refreshToken: string
  isBusy: boolean
}

class RefusedError extends Error {}

/** What the load does. A login asks for its challenge first, as clients do. */
export const actions = ['logIn', 'refresh', 'guarded'] as const
export type Action = (typeof actions)[number]

/** Clients of all instances. A balancer deals their requests out in turn. */
export class InstancesLoad {
  readonly #pools: readonly ConnectionPool[]
  readonly #sessions: Session[] = []
  #requests = 0
  #wallets = Math.floor(Math.random() * 1e9)

  constructor(ports: readonly number[]) {
    this.#pools = ports.map((port) => new ConnectionPool(port))
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

  /** As many requests as `clients` can make that wait for each answer. @returns how many a second */
  async saturate(action: Action, clients: number, seconds: number): Promise<number> {
    const begin = performance.now()
    const end = begin + seconds * 1000
    let count = 0
    await Promise.all(
      Array.from({ length: clients }, async () => {
        while (performance.now() < end) {
          if (await this.#attempt(() => this.#act(action))) count += 1
        }
      })
    )
    return (count * 1000) / (performance.now() - begin)
  }

  close(): void {
    for (const pool of this.#pools) pool.close()
  }

  /** @returns false where it was refused because the service is busy, as it is when its machine stands still */
  async #attempt(run: () => Promise<void>): Promise<boolean> {
    try {
      await run()
      return true
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error
      return false
    }
  }

  async #act(action: Action): Promise<void> {
    if (action === 'logIn') Object.assign(this.#anySession(), await this.#logIn(), { isBusy: false })
    else if (action === 'refresh') await this.#refresh()
    else {
      const token = this.#anySession().accessToken
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
    const first = Math.floor(Math.random() * this.#sessions.length)
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
    const pool = this.#pools[this.#requests++ % this.#pools.length]!
    const part = (): number => Math.floor(Math.random() * 256)
    const answer = await pool.use((connection) =>
      send(connection, `X-Forwarded-For: 10.${part()}.${part()}.${part()}\r\n`)
    )
    if (answer.status === 503) throw new RefusedError()
    if (answer.status !== 200) throw new Error(`expected 200, got ${answer.status}: ${answer.body}`)
    return answer
  }
}
