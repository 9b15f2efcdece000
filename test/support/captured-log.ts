/** Returns the destination of a server's log, and a function that returns the lines so far. */
export function captureLog(): { destination: { write: (line: string) => void }; log: () => Record<string, unknown>[] } {
  const lines: string[] = []
  return {
    destination: { write: (line) => void lines.push(line) },
    log: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  }
}
