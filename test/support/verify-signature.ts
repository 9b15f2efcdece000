import { createHash, createHmac, timingSafeEqual } from 'node:crypto'

/** A request as it came over the wire. */
export interface SignedRequest {
  readonly method: string
  /** Path and query, as they were sent. */
  readonly target: string
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Uint8Array
}

export interface S3Account {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly region: string
}

const SCHEME =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/
const MAX_SKEW_MILLISECONDS = 900_000

/**
 * Checks AWS Signature Version 4 of a request in one piece, written from its documentation ("Authenticating Requests: Using
 * the Authorization Header") and not from any client.
 *
 * @returns the code that S3 refuses with; undefined: the request is as it was signed
 */
export function signatureFault(
  request: SignedRequest,
  account: S3Account,
  nowMilliseconds: number
): string | undefined {
  const { method, target, headers, body } = request
  const match = SCHEME.exec(headers.authorization ?? '')
  if (match === null) return 'AccessDenied'
  const [, keyId, day = '', region = '', names = '', signature = ''] = match
  if (keyId !== account.accessKeyId) return 'InvalidAccessKeyId'
  if (region !== account.region) return 'AuthorizationHeaderMalformed'
  const date = headers['x-amz-date'] ?? ''
  const skew = Math.abs(Date.parse(isoOf(date)) - nowMilliseconds)
  if (!(skew <= MAX_SKEW_MILLISECONDS) || !date.startsWith(day)) return 'RequestTimeTooSkewed'
  const signed = names.split(';')
  // Its own headers and the host have to be signed, or a request could be sent elsewhere.
  const needed = ['host', ...Object.keys(headers).filter((name) => name.startsWith('x-amz-'))]
  if (!needed.every((name) => signed.includes(name))) return 'AccessDenied'
  const payload = headers['x-amz-content-sha256'] ?? ''
  const canonical = [
    method,
    ...canonicalTarget(target),
    ...signed.map((name) => `${name}:${(headers[name] ?? '').trim().replace(/ +/g, ' ')}`),
    '',
    names,
    payload
  ].join('\n')
  const scope = `${day}/${region}/s3/aws4_request`
  const key = [day, region, 's3', 'aws4_request'].reduce<string | Buffer>(
    (secret, part) => hmac(secret, part),
    `AWS4${account.secretAccessKey}`
  )
  const expected = hmac(key, ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n'))
  if (!timingSafeEqual(expected, Buffer.from(signature, 'hex'))) return 'SignatureDoesNotMatch'
  if (!/^[0-9a-f]{64}$/.test(payload)) return 'InvalidRequest'
  return payload === sha256(body) ? undefined : 'XAmzContentSHA256Mismatch'
}

/** Path and query, each encoded again by the rules of the documentation, the query sorted. */
function canonicalTarget(target: string): [path: string, query: string] {
  const [path = '', query = ''] = target.split('?')
  const pairs = [...new URLSearchParams(query)].map(([name, value]) => `${encode(name)}=${encode(value)}`)
  return [
    path
      .split('/')
      .map((part) => encode(decodeURIComponent(part)))
      .join('/'),
    pairs.sort().join('&')
  ]
}

function encode(text: string): string {
  const percent = (character: string): string => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
  return encodeURIComponent(text).replace(/[!'()*]/g, percent)
}

function isoOf(date: string): string {
  return date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z')
}

const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex')
const hmac = (key: string | Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest()
