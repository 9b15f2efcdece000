import { createReadStream } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { AwsV4Signer } from 'aws4fetch'
import { readBounded } from 'express-did-auth/server-kit'
import { limitMilliseconds } from '../../config/time-limits.js'

/** Address and access keys of a bucket. */
export interface S3Bucket {
  /** URL `https://host[:port]`, without the bucket. */
  readonly endpoint: string
  readonly bucket: string
  /** Region, which is part of each signature. Most storage services outside of AWS expect `us-east-1`. */
  readonly region: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Whether the bucket is part of the path instead of the host name. */
  readonly forcePathStyle: boolean
}

/** Time limits for the storage, in milliseconds. */
export interface S3Deadlines {
  /** Time until the response begins; for a request with a body, time to connect. */
  readonly answer: number
  /** Time between two pieces of a body, and between the last piece of an upload and the response. */
  readonly stall: number
  /** Time after the start of the first attempt in which another attempt may start. */
  readonly retries: number
}

/** A request. It is idempotent: names of objects are never reused, so a repeated PUT stores the same bytes. */
export interface S3Request {
  readonly method: 'GET' | 'PUT' | 'DELETE'
  /** Key of an object, or an empty text for the bucket itself. */
  readonly key: string
  readonly query?: Readonly<Record<string, string>>
  /** Index of the first byte to read. Default 0. */
  readonly start?: number
  /** File to upload. Its hash is signed, so that the storage refuses bytes that were changed in transit. */
  readonly body?: { readonly file: string; readonly byteCount: number; readonly sha256: string }
}

/** A response with a 2xx status. */
export interface S3Answer {
  readonly status: number
  /** Body of the response. It fails if the storage stalls; the reader may be slow. */
  readonly chunks: AsyncIterable<Uint8Array>
  /** Closes the connection if the body was not read to its end. */
  end(): void
}

type S3ErrorOptions = Partial<Pick<S3Error, 'code' | 'isTemporary' | 'retryAfterSeconds' | 'cause'>>

/**
 * Error of the object storage, with a system error code as `ObjectStore` requires. ENOENT: no such object; ENOSPC: no
 * space; EACCES: the access keys are refused; EIO: anything else. The message never contains a key or an address.
 */
export class S3Error extends Error {
  override readonly name = 'S3Error'
  readonly code: 'ENOENT' | 'ENOSPC' | 'EACCES' | 'EIO'
  /** Whether the same request may succeed a moment later. */
  readonly isTemporary: boolean
  /** Seconds that the storage asks its clients to wait. */
  readonly retryAfterSeconds: number | undefined

  constructor(message: string, { code = 'EIO', isTemporary = false, retryAfterSeconds, cause }: S3ErrorOptions = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.isTemporary = isTemporary
    this.retryAfterSeconds = retryAfterSeconds
  }
}

const { s3Answer: answer, s3Retries: retries } = limitMilliseconds
const DEADLINES: S3Deadlines = { answer, stall: 10_000, retries }
const MAX_ATTEMPTS = 3
const FIRST_PAUSE_MILLISECONDS = 100
const MAX_ERROR_BYTES = 65_536
const UPLOAD_PIECE_BYTES = 262_144
const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/** Sends signed requests to one bucket, with deadlines. Makes up to three attempts if failures may be temporary. */
export class S3Client {
  readonly #bucket: S3Bucket
  readonly #deadlines: S3Deadlines
  /** Signing keys that the signer has derived. */
  readonly #derivedKeys = new Map<string, ArrayBuffer>()

  constructor(bucket: S3Bucket, deadlines: Partial<S3Deadlines> = {}) {
    this.#bucket = bucket
    this.#deadlines = { ...DEADLINES, ...deadlines }
  }

  /**
   * Sends a request. The caller must read the body of the response completely, or call `end`.
   *
   * @throws S3Error of the last attempt
   */
  async call(request: S3Request): Promise<S3Answer> {
    return this.#repeat(() => this.#attempt(request))
  }

  /**
   * Sends a request, and returns the body of the response as text.
   *
   * @throws S3Error of the last attempt, or if the body is longer than `maxBytes`
   */
  async callForText(request: S3Request, maxBytes: number): Promise<string> {
    return this.#repeat(async () => readText((await this.#attempt(request)).chunks, maxBytes))
  }

  async #repeat<T>(attempt: () => Promise<T>): Promise<T> {
    const deadlineAt = performance.now() + this.#deadlines.retries
    for (let attempts = 1; ; attempts += 1) {
      try {
        return await attempt()
      } catch (error) {
        if (!(error instanceof S3Error) || !error.isTemporary || attempts === MAX_ATTEMPTS) throw error
        const backoff = FIRST_PAUSE_MILLISECONDS * 4 ** (attempts - 1) * (0.5 + Math.random())
        const wait = 1_000 * (error.retryAfterSeconds ?? 0) + backoff
        if (performance.now() + wait > deadlineAt) throw error
        await pause(wait)
      }
    }
  }

  async #attempt(request: S3Request): Promise<S3Answer> {
    const { method, body } = request
    const { url, headers } = await this.#sign(request)
    const deadline = new Deadline()
    deadline.restart(this.#deadlines.answer)
    try {
      const response = await fetch(url, {
        method,
        headers,
        redirect: 'manual',
        signal: deadline.signal,
        ...(body !== undefined && { body: ReadableStream.from(this.#upload(body.file, deadline)), duplex: 'half' })
      })
      deadline.stop()
      const chunks = this.#download(method, response, deadline)
      if (!response.ok) throw toRefusal(method, response, await readText(chunks, MAX_ERROR_BYTES).catch(() => ''))
      return { status: response.status, chunks, end: () => deadline.abort() }
    } catch (error) {
      deadline.abort()
      throw toFailure(method, error)
    }
  }

  /** Signs a request with AWS Signature Version 4. The signature is valid for five to fifteen minutes. */
  async #sign({ method, key, query = {}, start = 0, body }: S3Request): Promise<{ url: URL; headers: Headers }> {
    const { endpoint, bucket, forcePathStyle, region, accessKeyId, secretAccessKey } = this.#bucket
    const target = new URL(endpoint)
    if (!forcePathStyle) target.hostname = `${bucket}.${target.hostname}`
    target.pathname = `${target.pathname.replace(/\/$/, '')}/${forcePathStyle ? `${bucket}/` : ''}${key}`
    target.search = new URLSearchParams(query).toString()
    const signer = new AwsV4Signer({
      accessKeyId,
      secretAccessKey,
      region,
      service: 's3',
      cache: this.#derivedKeys,
      url: target.href,
      method,
      headers: { 'X-Amz-Content-Sha256': body?.sha256 ?? EMPTY_SHA256 }
    })
    const { url, headers } = await signer.sign()
    // `fetch` would otherwise request compressed responses. The header is not signed, because proxies change it.
    headers.set('Accept-Encoding', 'identity')
    if (body !== undefined) headers.set('Content-Length', String(body.byteCount))
    if (start > 0) headers.set('Range', `bytes=${start}-`)
    return { url, headers }
  }

  async *#upload(file: string, deadline: Deadline): AsyncGenerator<Uint8Array> {
    const chunks: AsyncIterable<Buffer> = createReadStream(file, { highWaterMark: UPLOAD_PIECE_BYTES })
    for await (const chunk of chunks) {
      deadline.restart(this.#deadlines.stall)
      yield chunk
    }
    deadline.restart(this.#deadlines.stall)
  }

  async *#download(method: string, { body }: Response, deadline: Deadline): AsyncGenerator<Uint8Array> {
    const reader: ReadableStreamDefaultReader<Uint8Array> | undefined = body?.getReader()
    try {
      while (reader !== undefined) {
        deadline.restart(this.#deadlines.stall)
        const { done, value } = await reader.read()
        deadline.stop()
        if (done) return
        yield value
      }
    } catch (error) {
      throw toFailure(method, error)
    } finally {
      deadline.abort()
    }
  }
}

/** Aborts a request if the storage does not respond in time. */
class Deadline {
  readonly #controller = new AbortController()
  readonly signal = this.#controller.signal
  #timer: NodeJS.Timeout | undefined

  /** Restarts the timer. After the deadline has expired, it does nothing, because the request is already aborted. */
  restart(milliseconds: number): void {
    this.stop()
    if (this.signal.aborted) return
    this.#timer = setTimeout(() => this.abort(), milliseconds)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  abort(): void {
    this.stop()
    this.#controller.abort()
  }
}

async function readText(chunks: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  return (
    await readBounded(chunks, maxBytes, () => new S3Error('The response of the object storage is too long'))
  ).toString()
}

/** Converts a network failure or an expired deadline to an S3Error. The cause of a `fetch` error is the reason. */
function toFailure(method: string, error: unknown): S3Error {
  if (error instanceof S3Error) return error
  const cause = typeof error === 'object' && error !== null && 'cause' in error ? error.cause : error
  return new S3Error(`Object storage did not answer ${method}`, { isTemporary: true, cause })
}

/** Statuses of temporary failures. AWS may also report a timeout as status 400 with the code RequestTimeout. */
const TEMPORARY = new Set([408, 429, 500, 502, 503, 504])

/** Converts an error response to an S3Error. Of the body, only the error code is used. */
function toRefusal(method: string, { status, headers }: Response, text: string): S3Error {
  const [, errorCode = ''] = /<Code>(\w{1,64})<\/Code>/.exec(text) ?? []
  const retryAfter = headers.get('retry-after') ?? ''
  return new S3Error(`Object storage answered ${status}${errorCode && ` ${errorCode}`} to ${method}`, {
    code: toSystemCode(status, errorCode),
    isTemporary: TEMPORARY.has(status) || errorCode === 'RequestTimeout',
    retryAfterSeconds: /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) : undefined
  })
}

function toSystemCode(status: number, errorCode: string): S3Error['code'] {
  // Codes of an exceeded quota in Ceph, MinIO, Garage and others. All of them send 507 for a full disk.
  if (status === 507 || /QuotaExceeded|StorageFull|InsufficientStorage/.test(errorCode)) return 'ENOSPC'
  // A missing bucket, or the error page of a proxy, must not look like lost content.
  if (status === 404 && errorCode === 'NoSuchKey') return 'ENOENT'
  return status === 401 || status === 403 ? 'EACCES' : 'EIO'
}
