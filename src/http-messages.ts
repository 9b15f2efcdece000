/** Headers of a request, names in lower case. A header that was sent several times is joined or a list, as in Node. */
export type RequestHeaders = Readonly<Record<string, string | string[] | undefined>> & {
  readonly accept?: string | undefined
  readonly authorization?: string | undefined
  readonly 'content-type'?: string | undefined
  readonly cookie?: string | undefined
  readonly origin?: string | undefined
}

/** A request as the endpoints read it, whichever framework received it. */
export interface HttpRequest {
  readonly method: string
  /** Path and query as the client sent them. */
  readonly originalUrl: string
  /** Path below which the routes are mounted; empty at the root. */
  readonly mountPath: string
  /** Path below {@link mountPath}, without query. */
  readonly path: string
  readonly headers: RequestHeaders
  /** Cookies by name, decoded. The first of several cookies with one name counts. */
  readonly cookies: Readonly<Record<string, unknown>>
  /** Address of the client, or any text that a trusted proxy reported; undefined if it is unknown. */
  readonly clientAddress: string | undefined
  /** Whether a proxy that the application does not trust forwarded the request: its clients share one address. */
  readonly isBehindUnknownProxy: boolean
  /** Body that a parser of the application has read: an object, text or bytes. Undefined if none has. */
  readonly parsedBody: unknown
  /** Whether the client has disconnected. */
  isGone(): boolean
  /** Returns the preferred one of these media types by the `Accept` header; false if it names none of them. */
  accepts(types: string[]): string | false
  /**
   * Receives the body, empty where there is none.
   * @throws DidAuthError ERR_TOO_LARGE for more than `maxBytes`, ERR_JSON when the client disconnects
   */
  receiveBody(maxBytes: number): Promise<Uint8Array>
}

/** An answer that no framework has sent yet. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Values of the `Set-Cookie` headers. */
  readonly cookies?: readonly string[]
  readonly body?: string
  /** Code of the error that is answered, for a log of requests. */
  readonly errorCode?: string
}
