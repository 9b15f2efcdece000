import cookieParser from 'cookie-parser'

const parse = cookieParser()

/**
 * Parses a `Cookie` header into a separate object. If cookie-parser set `req.cookies`, a later parser of the
 * application would skip the request.
 * @returns decoded cookies by name. A value that starts with `j:` is parsed as JSON
 */
export function parseCookies(cookie: string | undefined): Readonly<Record<string, unknown>> {
  const shim: { headers: { cookie: string | undefined }; cookies?: Record<string, unknown> } = { headers: { cookie } }
  // cookie-parser is typed for Express. It reads only `headers.cookie`, and calls back at once.
  parse(shim as never, undefined as never, () => undefined)
  return shim.cookies ?? {}
}
