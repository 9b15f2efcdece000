/**
 * Parses a URL. Not by `URL.canParse`: in Node 20, once it is optimised, it says no to texts with letters such as ü.
 */
export function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text)
  } catch {
    return undefined
  }
}
