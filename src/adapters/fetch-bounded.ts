/** Answer of {@link fetchBounded}. */
export interface BoundedAnswer {
  status: number
  headers: Headers
  text: string
}

/**
 * Fetches a text of at most `maxBytes` from a service that is trusted for its keys, but must not exhaust this process.
 * It follows no redirect: the answer then has its status. Workers do not know `redirect: 'error'`.
 * @throws Error if the answer is longer, or not complete after `milliseconds`
 * @throws TypeError of `fetch`, whose `cause` is the network error
 */
export async function fetchBounded(
  url: string,
  request: { headers?: Record<string, string>; cache?: 'no-store' },
  { milliseconds, maxBytes }: { milliseconds: number; maxBytes: number }
): Promise<BoundedAnswer> {
  const signal = AbortSignal.timeout(milliseconds)
  const { status, headers, body } = await fetch(withLoopbackAddress(url), { ...request, redirect: 'manual', signal })
  const decoder = new TextDecoder()
  let text = ''
  let byteCount = 0
  // Web streams are iterable in Node and Workers, although their types do not say so.
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    byteCount += chunk.length
    if (byteCount > maxBytes) throw new RangeError(`${url} answered more than ${String(maxBytes)} bytes`)
    text += decoder.decode(chunk, { stream: true })
  }
  return { status, headers, text: text + decoder.decode() }
}

/** Replaces `localhost` in an http URL by 127.0.0.1. The port at [::1] may belong to another user's process. */
function withLoopbackAddress(text: string): URL {
  const url = new URL(text)
  if (url.protocol === 'http:' && url.hostname === 'localhost') url.hostname = '127.0.0.1'
  return url
}

/** Describes a failed fetch with its cause. The message of `fetch` itself is only "fetch failed". */
export function describeFetchError(error: unknown): string {
  const read = (value: unknown, name: string): unknown => (value as Record<string, unknown> | undefined)?.[name]
  const cause = read(error, 'cause')
  // The error of a host with several addresses has a code and no message.
  const texts = [read(error, 'message'), read(cause, 'message') || read(cause, 'code')]
  return texts.filter((text) => typeof text === 'string').join(': ')
}
