import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { ObjectStore } from '../content-store.js'
import { splitIntoLeaves, isCid, LEAF_BYTES } from '../unixfs-blocks.js'
import { S3Client, S3Error, type S3Bucket, type S3Deadlines, type S3Request } from './s3-client.js'

/** Options of {@link createS3ObjectStore}. */
export interface S3StoreOptions extends S3Bucket {
  /** Prefix of all keys, such as `vault/`. This store owns all keys with the prefix, and may delete them. */
  readonly prefix: string
  readonly deadlines?: Partial<S3Deadlines>
}

/** Maximum size of a page of 1,000 keys. A key has at most 1 KiB, and its properties a few hundred bytes. */
const MAX_LIST_BYTES = 4_194_304

/** An object store in a bucket. */
export interface S3ObjectStore extends ObjectStore {
  /** Resolves if the bucket is available and accepts the access keys. @throws S3Error */
  ping(): Promise<void>
}

/**
 * Creates an object store in S3-compatible storage: AWS, Ceph, MinIO, Garage, R2, OpenStack Swift. It needs only PUT,
 * GET, DELETE and ListObjectsV2. Each failure is an S3Error with a system error code.
 */
export function createS3ObjectStore({ prefix, deadlines, ...bucket }: S3StoreOptions): S3ObjectStore {
  const client = new S3Client(bucket, deadlines)

  /**
   * Reads the bytes of an object as they arrive. A reader may be slower than the storage's timeout. If a connection
   * breaks after it has delivered bytes, the remaining bytes are requested again.
   */
  async function* readChunks(name: string): AsyncGenerator<Uint8Array> {
    for (let position = 0, startPosition = 0; ; startPosition = position) {
      const answer = await client.call({ method: 'GET', key: prefix + name, start: position })
      try {
        if (answer.status !== (position === 0 ? 200 : 206))
          throw new S3Error(`Object storage answered ${answer.status} to GET`)
        for await (const chunk of answer.chunks) {
          position += chunk.length
          yield chunk
        }
        return
      } catch (error) {
        if (position === startPosition) throw error
      } finally {
        answer.end()
      }
    }
  }

  async function listPage(parameters: Readonly<Record<string, string>>): Promise<ObjectList> {
    const query = { 'list-type': '2', prefix, ...parameters }
    return parseObjectList(await client.callForText({ method: 'GET', key: '', query }, MAX_LIST_BYTES))
  }

  return {
    breaksReaders: true,

    async put(name, file) {
      const body = await createBody(file)
      await client.callForText({ method: 'PUT', key: prefix + name, body }, LEAF_BYTES)
    },

    read: (name) => splitIntoLeaves(readChunks(name)),

    /** Deletes an object. S3 cannot overwrite bytes in place. */
    async delete(name) {
      try {
        await client.callForText({ method: 'DELETE', key: prefix + name }, LEAF_BYTES)
      } catch (error) {
        if (!(error instanceof S3Error) || error.code !== 'ENOENT') throw error
      }
    },

    async *list() {
      for (let query: Record<string, string> | undefined = {}; query !== undefined;) {
        const { keys, continuationToken } = await listPage(query)
        for (const key of keys) {
          if (!key.startsWith(prefix)) throw new S3Error('Object storage listed keys without the requested prefix')
          const name = key.slice(prefix.length)
          // Callers delete listed objects that they do not know, so objects of other applications are not listed.
          if (isObjectName(name)) yield name
        }
        if (continuationToken !== undefined && continuationToken === query['continuation-token'])
          throw new S3Error('Object storage repeats the same page of its list')
        query = continuationToken === undefined ? undefined : { 'continuation-token': continuationToken }
      }
    },

    async ping() {
      await listPage({ 'max-keys': '1' })
    }
  }
}

function isObjectName(name: string): boolean {
  return isCid(name.slice(0, -17)) && /^\.[0-9a-f]{16}$/.test(name.slice(-17))
}

/** Creates the body of an upload. The file is read for its hash, and later again for the upload. */
async function createBody(file: string): Promise<NonNullable<S3Request['body']>> {
  const hash = createHash('sha256')
  let byteCount = 0
  const chunks: AsyncIterable<Buffer> = createReadStream(file, { highWaterMark: LEAF_BYTES })
  for await (const chunk of chunks) {
    hash.update(chunk)
    byteCount += chunk.length
  }
  return { file, byteCount, sha256: hash.digest('hex') }
}

/** One page of the keys of a bucket. */
export interface ObjectList {
  readonly keys: readonly string[]
  /** Token of the next page; absent on the last page. */
  readonly continuationToken?: string
}

const DOCUMENT = /^\uFEFF?\s*(?:<\?xml[^<>]*\?>\s*)?<ListBucketResult(?:\s[^<>]*)?>(.*)<\/ListBucketResult>\s*$/s
const END = '</Contents>'
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

/**
 * Parses `Contents/Key`, `IsTruncated` and `NextContinuationToken` of a ListObjectsV2 response.
 *
 * @throws S3Error for any other text, so that a truncated response is never taken for a short list
 */
export function parseObjectList(text: string): ObjectList {
  const [, content] = DOCUMENT.exec(text) ?? []
  // Refuse comments, CDATA and document types, in which these elements would have another meaning.
  if (content === undefined || content.includes('<!')) throw createUnreadableError()
  const [head = '', ...parts] = content.split('<Contents>')
  let outside = head
  const keys = parts.map((part) => {
    const end = part.indexOf(END)
    if (end === -1) throw createUnreadableError()
    outside += part.slice(end + END.length)
    return readElement(part.slice(0, end), 'Key')
  })
  const isTruncated = readElement(outside, 'IsTruncated')
  if (isTruncated !== 'true' && isTruncated !== 'false') throw createUnreadableError()
  return { keys, ...(isTruncated === 'true' && { continuationToken: readElement(outside, 'NextContinuationToken') }) }
}

/** Returns the text of an element, which must exist exactly once and not be empty. */
function readElement(content: string, name: string): string {
  const [, text = '', ...others] = content.split(`<${name}>`)
  const end = text.indexOf(`</${name}>`)
  const raw = text.slice(0, end)
  if (end < 1 || others.length > 0 || raw.includes('<')) throw createUnreadableError()
  return raw.replace(/&([^&;]*);?/g, (entity, name: string) => {
    const [, isHex, digits] = /^#(x?)([0-9a-f]{1,6})$/i.exec(name) ?? []
    const point = digits === undefined ? NaN : parseInt(digits, isHex === '' ? 10 : 16)
    const character = point <= 0x10_ff_ff ? String.fromCodePoint(point) : ENTITIES[name]
    if (character === undefined || !entity.endsWith(';')) throw createUnreadableError()
    return character
  })
}

function createUnreadableError(): S3Error {
  return new S3Error('The response of the object storage is no list of objects')
}
