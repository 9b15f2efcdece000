import { AwsV4Signer } from 'aws4fetch'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import type { S3StoreOptions } from '../../../servers/content/s3/s3-object-store.js'
import { createHttpServer } from '../servers/http-server.js'

/**
 * Faults of object storage. `cut` closes the connection in the middle of an upload or of an answer, and `stall` leaves
 * it open there. `silent` never answers. `slow` makes many short pauses. `done and 500` executes the request, and then
 * answers 500.
 */
export type S3Fault =
  | 'reset'
  | 'silent'
  | 'slow'
  | 'cut'
  | 'stall'
  | 'done and 500'
  | 'slow down'
  | 'denied'
  | 'no bucket'
  | 'full'
  | 'wrong bytes'
  /** Answers 404 with an HTML page, like a proxy. */
  | 'proxy 404'
  /** Sends the whole object when a part of it is requested. */
  | 'no range'

/** Fake S3 storage, for faults that a real one does not produce on request. */
export interface FakeS3 {
  /** Returns options of a store whose keys have the prefix. */
  options(prefix?: string): S3StoreOptions
  readonly objects: Map<string, Buffer>
  /** Method and path of each request, and the code of its refusal. */
  readonly requests: string[]
  /** Number of object bytes that were passed to connections. */
  sentBytes: number
  /** Returns the fault of a request; undefined: none. */
  fault: (request: { readonly method: string; readonly key: string }) => S3Fault | undefined
  /** `Retry-After` of `slow down`, in seconds. */
  retryAfterSeconds: number
  /** Maximum number of keys on one page of a list. */
  pageLength: number
  /** Ends all connections and refuses new ones, until it listens again. */
  refuse(): Promise<void>
  listen(): Promise<void>
  close(): Promise<void>
}

const ACCOUNT = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret/of+the=tests', region: 'test-1' }
const BUCKET = 'content'
const PIECE = 65_536
const STATUSES: Readonly<Record<string, number>> = {
  NoSuchKey: 404,
  NoSuchBucket: 404,
  InternalError: 500,
  SlowDown: 503
}

/** Starts the storage on a free port. */
export async function startFakeS3(): Promise<FakeS3> {
  let port = 0
  const server = createHttpServer((req, res) => {
    // Read here, because it is needed after the client may have closed the connection.
    const { socket } = req
    answer(fake, req, res).catch(() => socket.destroy())
  })
  const fake: FakeS3 = {
    options: (prefix = 'vault/') => ({
      ...ACCOUNT,
      endpoint: `http://127.0.0.1:${port}`,
      bucket: BUCKET,
      forcePathStyle: true,
      prefix
    }),
    objects: new Map(),
    requests: [],
    sentBytes: 0,
    fault: () => undefined,
    retryAfterSeconds: 0,
    pageLength: 1_000,
    refuse: async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
    listen: async () => {
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
      ;({ port } = server.address() as AddressInfo)
    },
    close: async () => {
      if (server.listening) await fake.refuse()
    }
  }
  await fake.listen()
  return fake
}

async function answer(fake: FakeS3, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { method = '', url: target = '' } = req
  const url = new URL(target, 'http://s3')
  const [, bucket, ...names] = decodeURIComponent(url.pathname).split('/')
  const key = names.join('/')
  fake.requests.push(`${method} ${key}`)
  const fault = fake.fault({ method, key })
  const cutAt = fault === 'cut' && method === 'PUT' ? Number(req.headers['content-length']) / 2 : Infinity
  const body = await readBody(req, cutAt)
  const refused =
    (await signatureFault(req, body)) ??
    (bucket === BUCKET && fault !== 'no bucket' ? undefined : 'NoSuchBucket') ??
    { denied: 'AccessDenied', full: 'QuotaExceeded', 'slow down': 'SlowDown' }[String(fault)]
  if (refused !== undefined) fake.requests.push(`${method} ${refused}`)
  if (fault === 'silent') return
  if (fault === 'reset' || (fault === 'cut' && method === 'DELETE')) throw new Error(fault)
  const content = refused === undefined ? perform(fake, method, key, url.searchParams, body) : undefined
  if (fault === 'proxy 404') res.writeHead(404, { 'Content-Type': 'text/html' }).end('<html>404</html>')
  else if (refused !== undefined) refuse(fake, res, refused)
  else if (fault === 'done and 500') refuse(fake, res, 'InternalError')
  else if (content === undefined) refuse(fake, res, 'NoSuchKey')
  else await send(fake, req, res, content, fault)
}

/**
 * Signs a request again with an independent library. Returns an error code if the signature or the hash of the body is
 * wrong. The tests `*.swift.slow` verify signatures with a real storage.
 */
async function signatureFault(req: IncomingMessage, body: Buffer): Promise<string | undefined> {
  const { method = '', url = '', headers } = req
  const { authorization = '', host = '' } = headers
  const [, keyId, region, names = ''] =
    /Credential=([^/]+)\/\d{8}\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+)/.exec(authorization) ?? []
  if (keyId !== ACCOUNT.accessKeyId) return 'InvalidAccessKeyId'
  if (region !== ACCOUNT.region) return 'AuthorizationHeaderMalformed'
  const signed = names.split(';').filter((name) => name !== 'host')
  const signer = new AwsV4Signer({
    ...ACCOUNT,
    service: 's3',
    datetime: String(headers['x-amz-date']),
    method,
    url: `http://${host}${url}`,
    headers: Object.fromEntries(signed.map((name) => [name, String(headers[name])]))
  })
  if ((await signer.authHeader()) !== authorization) return 'SignatureDoesNotMatch'
  const hasExpectedHash = headers['x-amz-content-sha256'] === createHash('sha256').update(body).digest('hex')
  return hasExpectedHash ? undefined : 'XAmzContentSHA256Mismatch'
}

/** Executes a request, and returns the body of the answer; undefined: there is no such object. */
function perform(fake: FakeS3, method: string, key: string, query: URLSearchParams, body: Buffer): Buffer | undefined {
  if (method === 'PUT') fake.objects.set(key, body)
  if (method === 'DELETE') fake.objects.delete(key)
  if (method === 'PUT' || method === 'DELETE') return Buffer.alloc(0)
  return key === '' ? Buffer.from(listPage(fake, query)) : fake.objects.get(key)
}

function listPage({ objects, pageLength }: FakeS3, query: URLSearchParams): string {
  const [prefix, after] = [query.get('prefix') ?? '', query.get('continuation-token') ?? '']
  const keys = [...objects.keys()].sort().filter((key) => key.startsWith(prefix) && key > fromToken(after))
  const page = keys.slice(0, Math.min(pageLength, Number(query.get('max-keys') ?? '1000')))
  const contents = page.map((key) => `<Contents><Key>${escapeXml(key)}</Key><Size>1</Size></Contents>`)
  const isTruncated = page.length < keys.length
  const next = isTruncated ? `<NextContinuationToken>${toToken(page.at(-1) ?? '')}</NextContinuationToken>` : ''
  return `<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>${BUCKET}</Name><Prefix>${escapeXml(prefix)}</Prefix>
<KeyCount>${page.length}</KeyCount><IsTruncated>${isTruncated}</IsTruncated>${next}${contents.join('')}</ListBucketResult>`
}

// Tokens contain the characters that have to be encoded in a query.
const toToken = (key: string): string => `+/=${Buffer.from(key).toString('base64')}`
const fromToken = (token: string): string => Buffer.from(token.slice(3), 'base64').toString()
const escapeXml = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

async function send(
  fake: FakeS3,
  req: IncomingMessage,
  res: ServerResponse,
  content: Buffer,
  fault: S3Fault | undefined
): Promise<void> {
  const range = fault === 'no range' ? undefined : req.headers.range
  const start = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0)
  const bytes = fault === 'wrong bytes' ? withWrongByte(content) : content
  res.writeHead(start > 0 ? 206 : 200, { 'Content-Length': bytes.length - start })
  const end = fault === 'cut' || fault === 'stall' ? start + Math.ceil((bytes.length - start) / 2) : bytes.length
  const pieceLength = fault === 'slow' ? Math.ceil(bytes.length / 20) : PIECE
  const pieces = async function* (): AsyncGenerator<Buffer> {
    for (let position = start; position < end; position += pieceLength) {
      if (fault === 'slow') await pause(5)
      const piece = bytes.subarray(position, Math.min(position + pieceLength, end))
      fake.sentBytes += piece.length
      yield piece
    }
  }
  await pipeline(Readable.from(pieces(), { highWaterMark: 1 }), res, { end: false })
  if (fault === 'cut') res.destroy()
  else if (fault !== 'stall') res.end()
}

function refuse({ retryAfterSeconds }: FakeS3, res: ServerResponse, code: string): void {
  const headers = code === 'SlowDown' ? { 'Retry-After': String(retryAfterSeconds) } : {}
  const text = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>Refused</Message></Error>`
  res.writeHead(STATUSES[code] ?? 403, { 'Content-Type': 'application/xml', ...headers }).end(text)
}

async function readBody(req: IncomingMessage, cutAt: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let byteCount = 0
  for await (const chunk of req as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    byteCount += chunk.length
    if (byteCount >= cutAt) throw new Error('cut')
  }
  return Buffer.concat(chunks)
}

function withWrongByte(content: Buffer): Buffer {
  const changed = Buffer.from(content)
  const middle = changed.length >> 1
  changed[middle] = (changed[middle] ?? 0) ^ 1
  return changed
}
