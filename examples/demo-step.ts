/** Response of a service. */
export type Answer = Readonly<{ status: number; text: string; pinStatus?: string | undefined }>

/** Runs a step and prints its result in plain words. @throws Error if the status is unexpected, which stops the demo */
export async function step(words: string, run: () => Promise<Answer>, expectedStatus = 200): Promise<Answer> {
  const startedAt = performance.now()
  const answer = await run()
  const milliseconds = (performance.now() - startedAt).toFixed(1).padStart(7)
  const { status, pinStatus } = answer
  console.log(
    `${milliseconds} ms  ${words}\n            -> ${status}: ${describe(answer)}${pinStatus ? `, pin ${pinStatus}` : ''}`
  )
  if (status !== expectedStatus) throw new Error(`expected ${expectedStatus}`)
  return answer
}

/** Prints a remark that belongs to no request. */
export function say(words: string): void {
  console.log(`            (${words})`)
}

function describe({ text }: Answer): string {
  if (text.startsWith('{"accessToken"')) return 'an access token and a refresh token'
  if (text.startsWith('{"token"')) return 'a token'
  return text || 'nothing more'
}
