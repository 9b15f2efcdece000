import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { RefreshingClient } from './refreshing-client.js'
import { nodeOptions, scriptFile } from './run-script.js'
import { temporaryFolder } from './store-folder.js'
import { loginText, walletOf } from './wallet.js'

const script = scriptFile('test/support/killed-refresh-server.ts')
const wallet = walletOf(1)

interface KilledServer {
  child: ChildProcess
  port: number
}

/** What became of the rounds. */
export interface KilledRefreshes {
  rounds: number
  /** Refreshes whose process was killed after their commit. */
  killed: number
  /** Repeats, at the next process, that were answered with new tokens. */
  repeated: number
  loggedOut: number
}

/**
 * Refreshes once a round at a process that is killed between commit and answer, and repeats the same request at the next
 * one, on the same SQLite file.
 */
export async function killBetweenCommitAndAnswer(rounds: number): Promise<KilledRefreshes> {
  const { path, remove } = temporaryFolder()
  const file = `${path}/auth.db`
  let refreshToken = await logInOnce(file)
  const result: KilledRefreshes = { rounds, killed: 0, repeated: 0, loggedOut: 0 }
  let client: RefreshingClient | undefined
  for (let round = 0; round <= rounds; round += 1) {
    const { child, port } = await start(file, 'kill')
    const exit = once(child, 'exit')
    // The same request goes on at another port: the client keeps its token and its key.
    client = client?.at(port) ?? new RefreshingClient(port, refreshToken)
    if (round > 0) {
      const outcome = await client.refresh()
      if (outcome === 'refreshed') result.repeated += 1
      if (outcome === 'logged out') {
        result.loggedOut += 1
        refreshToken = await logInOnce(file)
        client = new RefreshingClient(port, refreshToken)
      }
    }
    if (round === rounds) {
      child.disconnect()
    } else if ((await client.refresh()) === 'unavailable') {
      result.killed += 1
    }
    await exit
  }
  remove()
  return result
}

async function start(file: string, mode: 'kill' | 'live'): Promise<KilledServer> {
  const child = fork(script, [file, mode], { execArgv: [...nodeOptions] })
  const [port] = (await once(child, 'message')) as [number]
  return { child, port }
}

async function logInOnce(file: string): Promise<string> {
  const { child, port } = await start(file, 'live')
  const exit = once(child, 'exit')
  const post = async (path: string, body: object): Promise<Record<string, string>> => {
    const headers = { 'Content-Type': 'application/json' }
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body)
    })
    return (await response.json()) as Record<string, string>
  }
  const { challenge = '' } = await post('/request-auth', { did: wallet.did })
  const sig = wallet.personalSign(loginText('service.example', challenge))
  const { refreshToken = '' } = await post('/auth', { did: wallet.did, sig })
  child.disconnect()
  await exit
  return refreshToken
}
