import type { RequestHandler } from 'express'

const CHECK_MILLISECONDS = 1_800
/** For so long an answer is given again, so that asking often costs the dependencies nothing. */
const FRESH_MILLISECONDS = 500

/** A dependency, and whether the server is of no use without it. */
export interface Dependency {
  name: string
  isNeeded: boolean
  check: (signal: AbortSignal) => Promise<unknown>
}

interface Readiness {
  isReady: boolean
  dependencies: Record<string, 'ok' | 'unavailable'>
}

/** `GET /health`: the process answers. No dependency is asked. */
export const health: RequestHandler = (_req, res) => {
  res.set('Cache-Control', 'no-store').json({ status: 'ok' })
}

/**
 * `GET /ready`: every dependency with its state, within 2 s. 503 only when a needed one is missing: others come back by
 * themselves, and a server taken out of service for them would help nobody.
 */
export function readiness(
  dependencies: readonly Dependency[],
  nowMilliseconds = (): number => performance.now()
): RequestHandler {
  let asked: { answer: Promise<Readiness>; freshUntil: number } | undefined
  return (_req, res) => {
    if (asked === undefined || nowMilliseconds() >= asked.freshUntil) {
      const answer = stateOfAll(dependencies)
      const current = { answer, freshUntil: Infinity }
      asked = current
      void answer.then(() => (current.freshUntil = nowMilliseconds() + FRESH_MILLISECONDS))
    }
    void asked.answer.then(({ isReady, dependencies }) => {
      const status = isReady ? 'ready' : 'not ready'
      res
        .status(isReady ? 200 : 503)
        .set('Cache-Control', 'no-store')
        .json({ status, dependencies })
    })
  }
}

async function stateOfAll(dependencies: readonly Dependency[]): Promise<Readiness> {
  const states = await Promise.all(
    dependencies.map(async (dependency) => ({ ...dependency, state: await stateOf(dependency) }))
  )
  return {
    isReady: states.every(({ isNeeded, state }) => state === 'ok' || !isNeeded),
    dependencies: Object.fromEntries(states.map(({ name, state }) => [name, state]))
  }
}

async function stateOf({ check }: Dependency): Promise<'ok' | 'unavailable'> {
  const timer = new AbortController()
  const expired = new Promise<never>((_resolve, reject) => {
    setTimeout(() => {
      reject(new Error('no answer in time'))
      timer.abort()
    }, CHECK_MILLISECONDS).unref()
  })
  try {
    await Promise.race([check(timer.signal), expired])
    return 'ok'
  } catch {
    return 'unavailable'
  }
}

/** Asks an RPC node for its chain id. */
export async function checkRpc(rpcUrl: string, signal: AbortSignal): Promise<void> {
  const { username, password, ...rest } = withoutCredentials(rpcUrl)
  const basic = Buffer.from(`${username}:${password}`).toString('base64')
  const response = await fetch(rest.url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      ...(username + password !== '' && { Authorization: `Basic ${basic}` })
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] }),
    signal
  })
  const answer: unknown = await response.json()
  if (typeof answer !== 'object' || answer === null || !('result' in answer)) throw new Error('no JSON-RPC answer')
}

/** `fetch` refuses a URL that holds a user. */
function withoutCredentials(text: string): { url: URL; username: string; password: string } {
  const url = new URL(text)
  const { username, password } = url
  url.username = ''
  url.password = ''
  return { url, username: decodeURIComponent(username), password: decodeURIComponent(password) }
}
