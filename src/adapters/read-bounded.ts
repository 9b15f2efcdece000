import { Buffer } from 'node:buffer'

/** Reads an untrusted body of at most `maxBytes`. If it is longer, the stream is cancelled and `tooLong` is thrown. */
export async function readBounded(
  body: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array> | null,
  maxBytes: number,
  tooLong: () => Error
): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let byteCount = 0
  // Web streams are iterable in Node, although their types do not say so.
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    byteCount += chunk.length
    if (byteCount > maxBytes) throw tooLong()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Moves user and password of a URL to a header. `fetch` refuses URLs with them, and quotes them in its error. */
export function separateUser(text: string): { url: string; headers: { Authorization?: string } } {
  const url = new URL(text)
  const user = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`
  url.username = url.password = ''
  const headers = user === ':' ? {} : { Authorization: `Basic ${Buffer.from(user).toString('base64')}` }
  return { url: url.href, headers }
}
