import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { ObjectStore } from '../content-store.js'
import { splitIntoLeaves, isCid, LEAF_BYTES } from '../unixfs-blocks.js'
import { S3Client, S3Error, type S3Bucket, type S3Deadlines, type S3Request } from './s3-client.js'

/** A bucket, and how this store uses it. */
export interface S3StoreOptions extends S3Bucket {
  /** Prefix of all keys, such as `vault/`. All below it belongs to this store, which reads, lists and deletes it. */
  readonly prefix: string
  readonly deadlines?: Partial<S3Deadlines>
}

/** A page of at most a thousand keys; each takes a few hundred bytes, and at most 1 KiB of key. */
const MAX_LIST_BYTES = 4_194_304

/** Objects in a bucket. */
export interface S3ObjectStore extends ObjectStore {
  /** Resolves when the bucket answers, and accepts the keys. @throws S3Error */
  ping(): Promise<void>
}

/**
 * Objects in storage that speaks S3: AWS, Ceph, MinIO, Garage, R2, OpenStack Swift. PUT, GET, DELETE and ListObjectsV2
 * are all it asks for. Each failure is an S3Error with a code of the system, as files have them.
 */
export function createS3ObjectStore({ prefix, deadlines, ...bucket }: S3StoreOptions): S3ObjectStore {
  const client = new S3Client(bucket, deadlines)

  /**
   * The bytes of an object as they come. A reader may be slower than the storage's timeout: the rest is requested again
   * when a connection breaks that brought something.
   */
  async function* readChunks(name: string): AsyncGenerator<Uint8Array> {
    for (let position = 0, begun = 0; ; begun = position) {
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
        if (position === begun) throw error
      } finally {
        answer.end()
      }
    }
  }

  async function listPage(query: Readonly<Record<string, string>>): Promise<ObjectList> {
    const all = { 'list-type': '2', prefix, ...query }
    return parseObjectList(await client.callForText({ method: 'GET', key: '', query: all }, MAX_LIST_BYTES))
  }

  return {
    breaksReaders: true,

    async put(name, file) {
      const body = await createBody(file)
      await client.callForText({ method: 'PUT', key: prefix + name, body }, LEAF_BYTES)
    },

    read: (name) => splitIntoLeaves(readChunks(name)),

    /** Deletes an object. Its bytes cannot be overwritten, because only the storage knows where they are. */
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
          if (!key.startsWith(prefix)) throw new S3Error('Object storage listed what was not asked for')
          const name = key.slice(prefix.length)
          // Callers delete listed objects that they do not know. Objects of others are therefore not listed.
          if (isObjectName(name)) yield name
        }
        if (continuationToken !== undefined && continuationToken === query['continuation-token'])
          throw new S3Error('Object storage lists without end')
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

/** Creates the body of an upload. The file is read here for its hash, and again for the upload. */
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
 * Reads what we need of a ListObjectsV2 answer: `Contents/Key`, `IsTruncated`, `NextContinuationToken`.
 *
 * @throws S3Error for all else, so that an answer that was cut never passes for a short list
 */
export function parseObjectList(text: string): ObjectList {
  const [, content] = DOCUMENT.exec(text) ?? []
  // No comment, CDATA or document type, in which these fields would mean something else.
  if (content === undefined || content.includes('<!')) throw createUnreadableError()
  const [head = '', ...parts] = content.split('<Contents>')
  let rest = head
  const keys = parts.map((part) => {
    const end = part.indexOf(END)
    if (end === -1) throw createUnreadableError()
    rest += part.slice(end + END.length)
    return readElement(part.slice(0, end), 'Key')
  })
  const isTruncated = readElement(rest, 'IsTruncated')
  if (isTruncated !== 'true' && isTruncated !== 'false') throw createUnreadableError()
  return { keys, ...(isTruncated === 'true' && { continuationToken: readElement(rest, 'NextContinuationToken') }) }
}

/** Returns the text of an element that exists once and is not empty. */
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
  return new S3Error('Object storage answered no list of objects')
}
