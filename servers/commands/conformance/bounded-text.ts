/** The longest answer that is read. Those of this protocol are a few KiB. */
export const MAX_ANSWER_BYTES = 1_048_576

/** The body of an answer as text. @throws Error when it is larger than 1 MiB, of which no more is read then */
export async function boundedText({ body }: Response, what: string): Promise<string> {
  const pieces: Uint8Array[] = []
  let byteCount = 0
  // Leaving the loop cancels the stream. The type of fetch does not know what is in it.
  for await (const piece of (body ?? []) as AsyncIterable<Uint8Array>) {
    byteCount += piece.length
    if (byteCount > MAX_ANSWER_BYTES) throw new Error(`${what} answered more than 1 MiB`)
    pieces.push(piece)
  }
  return new TextDecoder().decode(Buffer.concat(pieces))
}
