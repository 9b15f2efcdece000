/** Whether the host of a URL, without its port, is this machine. */
export function isLoopbackHost(hostname: string): boolean {
  return /^(?:localhost|.*\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
}

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
