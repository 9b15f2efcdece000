/** A request of the Fetch API (Workers, Bun, Deno) or of Node. */
export interface TokenRequest {
  /** HTTP method in upper case. Default `GET`. */
  readonly method?: string | undefined
  /** Object `Headers`, or values by lower-case names. */
  readonly headers:
    { get(name: string): string | null } | Readonly<Record<string, string | readonly string[] | undefined>>
}

/** Reads a header; undefined if it is absent. @param name - in lower case */
export function readHeader({ headers }: TokenRequest, name: string): string | undefined {
  if (isWebHeaders(headers)) return headers.get(name) ?? undefined
  const value = headers[name]
  return typeof value === 'string' ? value : value?.join(', ')
}

function isWebHeaders(headers: TokenRequest['headers']): headers is { get(name: string): string | null } {
  return typeof headers.get === 'function'
}
