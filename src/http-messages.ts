/** Headers of a request by lower-case name. Values of a repeated header are joined, or are an array, as in Node. */
export type RequestHeaders = Readonly<Record<string, string | string[] | undefined>> & {
  readonly accept?: string | undefined
  readonly authorization?: string | undefined
  readonly 'content-type'?: string | undefined
  readonly cookie?: string | undefined
  readonly origin?: string | undefined
  readonly 'user-agent'?: string | undefined
}

/** A request as the endpoints read it, whichever framework received it. */
export interface HttpRequest {
  /** Id that the server gave to the request, for log lines and RFC 9457 answers. */
  readonly id?: string | undefined
  /** HTTP method in upper case. */
  readonly method: string
  /** Path and query as the client sent them. */
  readonly originalUrl: string
  /** Path below which the routes are mounted; empty at the root. */
  readonly mountPath: string
  /** Headers by lower-case names. */
  readonly headers: RequestHeaders
  /** Decoded cookies by name. If several cookies have the same name, the first one counts. */
  readonly cookies: Readonly<Record<string, unknown>>
  /** Address of the client, or any text that a trusted proxy reported; undefined if it is unknown. */
  readonly clientAddress: string | undefined
  /** Whether an untrusted proxy forwarded the request. All clients of that proxy then have the same address. */
  readonly isBehindUnknownProxy: boolean
  /** Whether more proxies forwarded the request than are trusted, or its client says so. */
  readonly hasUntrustedProxies?: boolean
  /** Whether the client has disconnected. */
  readonly isGone: () => boolean
  /** Returns the media type that the client prefers by its `Accept` header; false if it accepts none of these. */
  accepts(types: string[]): string | false
  /**
   * Returns the body that a parser of the application has read: an object, text or bytes. If no parser has read it,
   * receives its bytes, or returns undefined without `maxBytes`.
   * @throws DidAuthError ERR_TOO_LARGE for more than `maxBytes`; ERR_JSON, an error of the client, if it disconnects
   */
  receiveBody(maxBytes: number | undefined): Promise<unknown>
}

/** Response of an endpoint, before the framework of the application sends it. */
export interface HttpAnswer {
  /** HTTP status. */
  readonly status: number
  /** Headers except `Set-Cookie`. */
  readonly headers: Readonly<Record<string, string>>
  /** Values of the `Set-Cookie` headers. */
  readonly cookies?: readonly string[]
  /** Text of the body. Absent: no body. */
  readonly body?: string
  /** Code of the error in the response, for the request log. */
  readonly errorCode?: string
}
