/** Quotas of Ceph, MinIO, Garage and others; a full disk is 507 with all of them. */
const FULL = /QuotaExceeded|StorageFull|InsufficientStorage/

/** Failures that pass, by status; AWS says RequestTimeout with a 400. */
const TEMPORARY = new Set([408, 429, 500, 502, 503, 504])

/**
 * What object storage refused, with a code of the system as the port asks for it: ENOENT where there is no such object,
 * ENOSPC where there is no space, EACCES where the keys are not accepted, EIO for all else. Never with a key or an address.
 */
export class S3Error extends Error {
  override readonly name = 'S3Error'
  readonly code: 'ENOENT' | 'ENOSPC' | 'EACCES' | 'EIO'
  /** Whether the same request may succeed a moment later. */
  readonly isTemporary: boolean
  /** Whole seconds that the storage asks its clients to wait. */
  readonly retryAfterSeconds: number | undefined

  constructor(
    message: string,
    {
      code = 'EIO',
      isTemporary = false,
      retryAfterSeconds,
      cause
    }: {
      readonly code?: S3Error['code']
      readonly isTemporary?: boolean
      readonly retryAfterSeconds?: number | undefined
      readonly cause?: unknown
    } = {}
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.isTemporary = isTemporary
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/**
 * The error that an answer means.
 *
 * A 404 counts as "no such object" only with the code that says so: a bucket that is not there, or the page of a proxy
 * before the storage, must not look like lost content.
 *
 * @param text - the body, of which only the code is taken
 */
export function answeredError(method: string, answer: Pick<Response, 'status' | 'headers'>, text: string): S3Error {
  const { status, headers } = answer
  const [, said = ''] = /<Code>(\w{1,64})<\/Code>/.exec(text) ?? []
  const retryAfter = headers.get('retry-after') ?? ''
  return new S3Error(`Object storage answered ${status}${said && ` ${said}`} to ${method}`, {
    code: codeFor(status, said),
    isTemporary: TEMPORARY.has(status) || said === 'RequestTimeout',
    retryAfterSeconds: /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) : undefined
  })
}

function codeFor(status: number, said: string): S3Error['code'] {
  if (status === 507 || FULL.test(said)) return 'ENOSPC'
  if (status === 404 && said === 'NoSuchKey') return 'ENOENT'
  return status === 401 || status === 403 ? 'EACCES' : 'EIO'
}
