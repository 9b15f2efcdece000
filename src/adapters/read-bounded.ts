import { Buffer } from 'node:buffer'

/** Reads all bytes of a foreign body. The rest of a longer one is not read: leaving the loop cancels the stream. */
export async function readBounded(
  body: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array> | null,
  maxBytes: number,
  tooLong: () => Error
): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let byteCount = 0
  // The types of the web's streams do not have what Node's do.
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    byteCount += chunk.length
    if (byteCount > maxBytes) throw tooLong()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Moves user and password of a URL to a header: `fetch` refuses URLs that have them, and quotes them in its error. */
export function separateUser(text: string): { url: string; headers: { Authorization?: string } } {
  const url = new URL(text)
  const user = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`
  url.username = url.password = ''
  const headers = user === ':' ? {} : { Authorization: `Basic ${Buffer.from(user).toString('base64')}` }
  return { url: url.href, headers }
}
