import { setTimeout as pause } from 'node:timers/promises'
import { Deadline } from './deadline.js'
import { answeredError, S3Error } from './s3-error.js'
import { signS3Request, type S3Body, type S3Bucket, type S3Request } from './s3-request.js'

/** How long the storage may take, in milliseconds. */
export interface S3Deadlines {
  /** To connect and begin its answer to a request without body. */
  readonly answer: number
  /** From one piece of a body to the next, and from the last piece of an upload to the answer. */
  readonly stall: number
  /** From the first attempt to the beginning of the last one. */
  readonly retries: number
}

/** An answer with status 2xx. */
export interface S3Answer {
  readonly status: number
  /** The body. It fails when the storage makes a pause; a pause of the reader lasts as long as it lasts. */
  readonly chunks: AsyncIterable<Uint8Array>
  /** Closes the connection where the body was not read to its end. */
  end(): void
}

const DEADLINES: S3Deadlines = { answer: 5_000, stall: 10_000, retries: 8_000 }
const MAX_ATTEMPTS = 3
const FIRST_PAUSE_MILLISECONDS = 100
const MAX_ERROR_BYTES = 65_536

/** Sends signed requests to one bucket, with deadlines, and up to three times where a failure may pass. */
export class S3Caller {
  readonly #bucket: S3Bucket
  readonly #deadlines: S3Deadlines
  readonly #derivedKeys = new Map<string, ArrayBuffer>()

  constructor(bucket: S3Bucket, deadlines: Partial<S3Deadlines> = {}) {
    this.#bucket = bucket
    this.#deadlines = { ...DEADLINES, ...deadlines }
  }

  /** @returns an answer to be read to its end, or to be ended @throws S3Error of the last attempt */
  async call(request: S3Request): Promise<S3Answer> {
    return this.#repeat(() => this.#attempt(request))
  }

  /** @returns the whole body of an answer @throws S3Error of the last attempt; also when the body is longer */
  async callForText(request: S3Request, maxBytes: number): Promise<string> {
    return this.#repeat(async () => readText((await this.#attempt(request)).chunks, maxBytes))
  }

  async #repeat<T>(attempt: () => Promise<T>): Promise<T> {
    const end = performance.now() + this.#deadlines.retries
    for (let attempts = 1; ; attempts += 1) {
      try {
        return await attempt()
      } catch (error) {
        if (!(error instanceof S3Error) || !error.isTemporary || attempts === MAX_ATTEMPTS) throw error
        const backoff = FIRST_PAUSE_MILLISECONDS * 4 ** (attempts - 1) * (0.5 + Math.random())
        const wait = 1_000 * (error.retryAfterSeconds ?? 0) + backoff
        if (performance.now() + wait > end) throw error
        await pause(wait)
      }
    }
  }

  async #attempt(request: S3Request): Promise<S3Answer> {
    const { method, body } = request
    const { url, headers } = await signS3Request(this.#bucket, request, this.#derivedKeys)
    const deadline = new Deadline()
    deadline.restart(this.#deadlines.answer)
    try {
      const response = await fetch(url, {
        method,
        headers,
        redirect: 'manual',
        signal: deadline.signal,
        ...(body !== undefined && { body: ReadableStream.from(this.#upload(body, deadline)), duplex: 'half' })
      })
      deadline.stop()
      const chunks = this.#download(method, response.body, deadline)
      if (!response.ok) throw answeredError(method, response, await readText(chunks, MAX_ERROR_BYTES).catch(() => ''))
      const end = (): void => {
        deadline.expire()
      }
      return { status: response.status, chunks, end }
    } catch (error) {
      deadline.expire()
      throw failureOf(method, error)
    }
  }

  async *#upload(body: S3Body, deadline: Deadline): AsyncGenerator<Uint8Array> {
    for await (const chunk of body.chunks()) {
      deadline.restart(this.#deadlines.stall)
      yield chunk
    }
    deadline.restart(this.#deadlines.stall)
  }

  async *#download(
    method: string,
    body: ReadableStream<Uint8Array> | null,
    deadline: Deadline
  ): AsyncGenerator<Uint8Array> {
    const reader = body?.getReader()
    try {
      while (reader !== undefined) {
        deadline.restart(this.#deadlines.stall)
        const { done, value } = await reader.read()
        deadline.stop()
        if (done) return
        yield value
      }
    } catch (error) {
      throw failureOf(method, error)
    } finally {
      deadline.expire()
    }
  }
}

/** No whole answer: no connection, a broken one, or a deadline. `fetch` says why in the cause of its own error. */
function failureOf(method: string, error: unknown): S3Error {
  if (error instanceof S3Error) return error
  const cause = typeof error === 'object' && error !== null && 'cause' in error ? error.cause : error
  return new S3Error(`Object storage did not answer ${method}`, { isTemporary: true, cause })
}

async function readText(chunks: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const all: Uint8Array[] = []
  let byteCount = 0
  for await (const chunk of chunks) {
    byteCount += chunk.length
    if (byteCount > maxBytes) throw new S3Error('Object storage answered too much')
    all.push(chunk)
  }
  return Buffer.concat(all).toString()
}
