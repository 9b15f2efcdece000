import type { RequestHandler } from 'express'

const CHECK_MILLISECONDS = 1_800

/** A dependency, and whether the server is of no use without it. */
export interface Dependency {
  name: string
  isNeeded: boolean
  check: (signal: AbortSignal) => Promise<unknown>
}

/** `GET /health`: the process answers. No dependency is asked. */
export const health: RequestHandler = (_req, res) => {
  res.json({ status: 'ok' })
}

/**
 * `GET /ready`: every dependency with its state, within 2 s. 503 only when a needed one is missing: others come back by
 * themselves, and a server taken out of service for them would help nobody.
 */
export function readiness(dependencies: readonly Dependency[]): RequestHandler {
  return (_req, res) => {
    void Promise.all(dependencies.map(stateOf)).then((states) => {
      const isReady = states.every((state, index) => state === 'ok' || dependencies[index]?.isNeeded === false)
      const named = Object.fromEntries(dependencies.map(({ name }, index) => [name, states[index]]))
      res.status(isReady ? 200 : 503).json({ status: isReady ? 'ready' : 'not ready', dependencies: named })
    })
  }
}

async function stateOf({ check }: Dependency): Promise<'ok' | 'unavailable'> {
  const signal = AbortSignal.timeout(CHECK_MILLISECONDS)
  const expired = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      reject(new Error('no answer in time'))
    })
  })
  try {
    await Promise.race([check(signal), expired])
    return 'ok'
  } catch {
    return 'unavailable'
  }
}

/** Asks an RPC node for its chain id. */
export async function checkRpc(rpcUrl: string, signal: AbortSignal): Promise<void> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] })
  const response = await fetch(rpcUrl, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body,
    signal
  })
  const answer: unknown = await response.json()
  if (typeof answer !== 'object' || answer === null || !('result' in answer)) throw new Error('no JSON-RPC answer')
}
