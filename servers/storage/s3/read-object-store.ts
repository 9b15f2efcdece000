import { isIP } from 'node:net'
import { StartError } from '../../config/startup-error.js'
import { S3ObjectStore } from './s3-object-store.js'

/** The variables of object storage, as they are set. */
export interface S3Variables {
  readonly S3_ENDPOINT?: string | undefined
  readonly S3_BUCKET?: string | undefined
  readonly S3_REGION?: string | undefined
  readonly S3_ACCESS_KEY_ID?: string | undefined
  readonly S3_SECRET_ACCESS_KEY?: string | undefined
  readonly S3_FORCE_PATH_STYLE?: boolean | undefined
}

const NEEDED = ['S3_ENDPOINT', 'S3_BUCKET', 'S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY'] as const
const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/
const REGION = /^[\w-]{1,64}$/
/** They stand in a header, and end at a slash there. */
const ACCESS_KEY_ID = /^[\w.:@+-]{1,128}$/

/**
 * The store of objects that the environment names.
 *
 * @param prefix - of the server's keys in the bucket, with a slash at its end: servers may share a bucket
 * @returns undefined where none of the variables is set: objects are files then
 * @throws StartError with the names of all that are missing or wrong; never with a value
 * @example readObjectStore({ S3_BUCKET: 'content', S3_ENDPOINT: 'https://s3.example.com', ... }, 'vault/')
 */
export function readObjectStore(variables: S3Variables, prefix: string): S3ObjectStore | undefined {
  const {
    S3_ENDPOINT: endpoint = '',
    S3_BUCKET: bucket = '',
    S3_REGION: region = 'us-east-1',
    S3_ACCESS_KEY_ID: accessKeyId = '',
    S3_SECRET_ACCESS_KEY: secretAccessKey = '',
    S3_FORCE_PATH_STYLE: forcePathStyle = true
  } = variables
  if (Object.values(variables).every((value) => value === undefined)) return undefined
  const missing = NEEDED.filter((name) => (variables[name] ?? '') === '')
  const faults = [
    ...(missing.length > 0 ? [`set ${missing.join(', ')} as well`] : []),
    ...(endpoint !== '' && !isEndpoint(endpoint) ? ['S3_ENDPOINT: give https://host, without user and query'] : []),
    ...(bucket !== '' && !BUCKET.test(bucket) ? ['S3_BUCKET: give the name of a bucket'] : []),
    ...(REGION.test(region) ? [] : ['S3_REGION: give a region, such as us-east-1']),
    ...(accessKeyId !== '' && !ACCESS_KEY_ID.test(accessKeyId) ? ['S3_ACCESS_KEY_ID: give one without spaces'] : []),
    ...(!forcePathStyle && hasNumericHost(endpoint)
      ? ['S3_FORCE_PATH_STYLE: a bucket cannot stand before an IP address']
      : [])
  ]
  if (faults.length > 0) throw new StartError(`Object storage: ${faults.join('; ')}`)
  return new S3ObjectStore({ endpoint, bucket, region, accessKeyId, secretAccessKey, forcePathStyle, prefix })
}

function isEndpoint(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && username + password + search + hash === ''
}

function hasNumericHost(endpoint: string): boolean {
  return URL.canParse(endpoint) && isIP(new URL(endpoint).hostname.replace(/^\[|\]$/g, '')) !== 0
}
