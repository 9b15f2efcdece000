import { AwsV4Signer } from 'aws4fetch'

/** Where a bucket is, and who asks. */
export interface S3Bucket {
  /** `https://host[:port]`, without the bucket. */
  readonly endpoint: string
  readonly bucket: string
  /** Part of every signature; `us-east-1` with most storage that is not of AWS. */
  readonly region: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Whether the bucket stands in the path, and not before the host. */
  readonly forcePathStyle: boolean
}

/** One request. Each of ours may be repeated: the name of an object is never reused, so that a second PUT stores the same. */
export interface S3Request {
  readonly method: 'GET' | 'PUT' | 'DELETE'
  /** Key of an object; empty: the bucket itself. */
  readonly key: string
  readonly query?: Readonly<Record<string, string>>
  /** Not signed. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: S3Body
}

/** What is uploaded. Its hash is signed, so that the storage refuses what arrives changed. */
export interface S3Body {
  readonly byteCount: number
  /** In hexadecimal digits. */
  readonly sha256: string
  /** From the beginning, for each attempt. */
  chunks(): AsyncIterable<Uint8Array>
}

const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/**
 * The URL and the headers of a request, signed by AWS Signature Version 4 for five to fifteen minutes.
 *
 * @param derivedKeys - what the signer keeps from one request to the next
 */
export async function signS3Request(
  { endpoint, bucket, forcePathStyle, region, accessKeyId, secretAccessKey }: S3Bucket,
  { method, key, query = {}, headers: unsigned = {}, body }: S3Request,
  derivedKeys: Map<string, ArrayBuffer>
): Promise<{ url: URL; headers: Headers }> {
  const target = new URL(endpoint)
  if (!forcePathStyle) target.hostname = `${bucket}.${target.hostname}`
  target.pathname = `${target.pathname.replace(/\/$/, '')}/${forcePathStyle ? `${bucket}/` : ''}${key}`
  target.search = new URLSearchParams(query).toString()
  const signer = new AwsV4Signer({
    accessKeyId,
    secretAccessKey,
    region,
    service: 's3',
    cache: derivedKeys,
    url: target.href,
    method,
    headers: { 'X-Amz-Content-Sha256': body?.sha256 ?? EMPTY_SHA256 }
  })
  const { url, headers } = await signer.sign()
  // Not signed, because proxies change it; and said, because `fetch` would ask for compressed answers.
  headers.set('Accept-Encoding', 'identity')
  if (body !== undefined) headers.set('Content-Length', String(body.byteCount))
  for (const [name, value] of Object.entries(unsigned)) headers.set(name, value)
  return { url, headers }
}
