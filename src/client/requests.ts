import { ChallengeError, DidAuthClientError, UnavailableError } from './errors.js'

/** A signal that is aborted after some seconds, or with the caller's own. */
export function withTimeout(seconds: number, signal?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(seconds * 1000)
  return signal ? AbortSignal.any([signal, timeout]) : timeout
}

/**
 * What a request comes to.
 *
 * @param what - for the message: what was asked
 * @throws the signal's reason; UnavailableError for what is no error of the client, as when the network fails
 */
export async function orUnavailable<T>(
  what: string,
  signal: AbortSignal | null | undefined,
  request: () => Promise<T>
): Promise<T> {
  try {
    return await request()
  } catch (cause) {
    signal?.throwIfAborted()
    throw cause instanceof DidAuthClientError
      ? cause
      : new UnavailableError({ message: `${what}: ${String(cause)}`, cause })
  }
}

/** Whether a challenge or token came too late, or a challenge was used: another one may be accepted. */
export function isOutdated(error: unknown): boolean {
  return error instanceof ChallengeError && /_(EXPIRED|USED)$/.test(error.serverCode ?? '')
}
