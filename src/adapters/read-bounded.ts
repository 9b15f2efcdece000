import { Buffer } from 'node:buffer'

/** All bytes of a body from elsewhere. The rest of a longer one is not read: leaving the loop cancels the stream. */
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
