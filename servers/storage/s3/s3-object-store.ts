import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { ObjectStore } from '../object-store.js'
import { isObjectName } from '../object-writer.js'
import { LEAF_BYTES } from '../unixfs-blocks.js'
import { parseObjectList } from './parse-object-list.js'
import { S3Caller, type S3Answer, type S3Deadlines } from './s3-caller.js'
import { S3Error } from './s3-error.js'
import type { S3Body, S3Bucket } from './s3-request.js'

/** A bucket, and how this store uses it. */
export interface S3StoreOptions extends S3Bucket {
  /** Of all keys, such as `vault/`: what lies below it is this store's alone, for reading, listing and deleting. */
  readonly prefix: string
  readonly deadlines?: Partial<S3Deadlines>
}

/** A page of at most a thousand keys; each takes a few hundred bytes, and at most 1 KiB of key. */
const MAX_LIST_BYTES = 4_194_304

/**
 * Objects in storage that speaks S3: AWS, Ceph, MinIO, Garage, R2, OpenStack Swift. It asks for no conditional writes and no
 * versions, only for PUT, GET, DELETE and ListObjectsV2.
 *
 * Each failure is an S3Error with a code of the system, as files have them.
 */
export class S3ObjectStore implements ObjectStore {
  readonly breaksReaders = true
  readonly #caller: S3Caller
  readonly #prefix: string

  constructor({ prefix, deadlines, ...bucket }: S3StoreOptions) {
    this.#caller = new S3Caller(bucket, deadlines)
    this.#prefix = prefix
  }

  async put(name: string, file: string): Promise<void> {
    const body = await bodyOf(file)
    await this.#caller.callForText({ method: 'PUT', key: this.#keyOf(name), body }, LEAF_BYTES)
  }

  async *read(name: string): AsyncIterable<Uint8Array> {
    let [piece, filled] = [Buffer.alloc(0), 0]
    for await (const chunk of this.#chunks(name)) {
      for (let start = 0; start < chunk.length;) {
        if (filled === 0) piece = Buffer.allocUnsafeSlow(LEAF_BYTES)
        const part = chunk.subarray(start, start + LEAF_BYTES - filled)
        piece.set(part, filled)
        start += part.length
        filled += part.length
        if (filled < LEAF_BYTES) continue
        yield piece
        filled = 0
      }
    }
    if (filled > 0) yield piece.subarray(0, filled)
  }

  /** Without overwriting: where its bytes lay is known to the storage alone. */
  async delete(name: string): Promise<void> {
    try {
      await this.#caller.callForText({ method: 'DELETE', key: this.#keyOf(name) }, LEAF_BYTES)
    } catch (error) {
      if (!(error instanceof S3Error) || error.code !== 'ENOENT') throw error
    }
  }

  async *list(): AsyncIterable<string> {
    for (let query: Record<string, string> | undefined = {}; query !== undefined;) {
      const { keys, continuationToken } = await this.#listPage(query)
      for (const key of keys) {
        if (!key.startsWith(this.#prefix)) throw new S3Error('Object storage listed what was not asked for')
        const name = key.slice(this.#prefix.length)
        // What is listed and unknown is deleted: never what others put there.
        if (isObjectName(name)) yield name
      }
      if (continuationToken !== undefined && continuationToken === query['continuation-token'])
        throw new S3Error('Object storage lists without end')
      query = continuationToken === undefined ? undefined : { 'continuation-token': continuationToken }
    }
  }

  /** Resolves when the bucket answers, and accepts the keys. @throws S3Error */
  async ping(): Promise<void> {
    await this.#listPage({ 'max-keys': '1' })
  }

  /**
   * The bytes of an object as they come. A reader may be slower than the storage's timeout: the rest is requested again
   * when a connection breaks that brought something.
   */
  async *#chunks(name: string): AsyncGenerator<Uint8Array> {
    for (let position = 0, begun = 0; ; begun = position) {
      const answer = await this.#callFrom(name, position)
      try {
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

  async #callFrom(name: string, position: number): Promise<S3Answer> {
    const headers = position === 0 ? {} : { Range: `bytes=${position}-` }
    const answer = await this.#caller.call({ method: 'GET', key: this.#keyOf(name), headers })
    if (answer.status === (position === 0 ? 200 : 206)) return answer
    answer.end()
    throw new S3Error(`Object storage answered ${answer.status} to GET`)
  }

  async #listPage(query: Readonly<Record<string, string>>): Promise<ReturnType<typeof parseObjectList>> {
    const all = { 'list-type': '2', prefix: this.#prefix, ...query }
    return parseObjectList(await this.#caller.callForText({ method: 'GET', key: '', query: all }, MAX_LIST_BYTES))
  }

  #keyOf(name: string): string {
    return this.#prefix + name
  }
}

/** A file as it is uploaded: it is read twice, first for its hash. */
async function bodyOf(file: string): Promise<S3Body> {
  const hash = createHash('sha256')
  let byteCount = 0
  const chunks = (): AsyncIterable<Buffer> => createReadStream(file, { highWaterMark: LEAF_BYTES })
  for await (const chunk of chunks()) {
    hash.update(chunk)
    byteCount += chunk.length
  }
  return { byteCount, sha256: hash.digest('hex'), chunks }
}
