import type { Logger } from 'pino'

/** Where Kubo listens by default. */
const LOCAL_NODE = 'http://127.0.0.1:5001'
const TIMEOUT_MILLISECONDS = 1_000

/** Logs a line when an unnamed IPFS node answers on this machine. It waits for 1 s at most, and never fails. */
export async function hintAtLocalNode(log: Logger, url = LOCAL_NODE): Promise<void> {
  try {
    const options = { method: 'POST', redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS) } as const
    const { status, body } = await fetch(`${url}/api/v0/version`, options)
    await body?.cancel()
    if (status !== 200) return
    const sentence = `an IPFS node answers at ${url}: with IPFS_API_URL content goes there as well`
    log.info({ event: 'ipfs-found', url }, sentence)
  } catch {
    // No node, as on most machines.
  }
}
