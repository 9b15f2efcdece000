import { isIP } from 'node:net'
import { isPrivateKey } from 'express-did-auth'
import { isEthrNetwork, isKeyDid, isLoginDialect, type LoginDialect } from 'express-did-auth/protocol'
import { z } from 'zod'

/** The longest times that the library accepts. */
const MAX_SECONDS = 1e9
const MAX_HOURS = 1e9

const isHttpUrl = (text: string): boolean => URL.canParse(text) && /^https?:\/\//i.test(text)

const hasScheme = (text: string, scheme: RegExp): boolean => URL.canParse(text) && scheme.test(new URL(text).protocol)

/** Whether user and password of a URL are percent-encoded correctly. */
const hasReadableUser = (text: string): boolean => {
  if (!isHttpUrl(text)) return true
  const { username, password } = new URL(text)
  try {
    decodeURIComponent(username + password)
    return true
  } catch {
    return false
  }
}

/** Whether text is an address, a network, or a name that Express has for some networks. */
const isProxy = (text: string): boolean => {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true
  const [address = '', bits, ...rest] = text.split('/')
  const version = isIP(address)
  const isNetwork =
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) >= 1 && Number(bits) <= (version === 4 ? 32 : 128))
  return version !== 0 && isNetwork && rest.length === 0
}

const isBucketUrl = (text: string): boolean => {
  if (!isHttpUrl(text)) return false
  const { username, password, search, hash } = new URL(text)
  return username + password + search + hash === ''
}

const entriesOf = (text: string): string[] => text.split(',').flatMap((entry) => entry.trim() || [])

/** How each kind of variable is parsed. The message is the remedy. */
export const forms = {
  text: z.string(),
  port: wholeNumber(0, 'give a port, 0 to 65535').refine((value) => value <= 65_535, 'give a port, 0 to 65535'),
  seconds: wholeNumber(1, 'give a number of seconds, 1 to 1000000000', MAX_SECONDS),
  secondsOrNone: wholeNumber(0, 'give a number of seconds, 0 to 1000000000', MAX_SECONDS),
  bytes: wholeNumber(1, 'give a number of bytes, at least 1'),
  entries: wholeNumber(1, 'give a number of entries, at least 1'),
  requests: wholeNumber(1, 'give a number of requests, at least 1'),
  hours: z
    .string()
    .regex(/^\d{1,10}(?:\.\d{1,10})?$/, 'give a number of hours above 0')
    .transform(Number)
    .refine((value) => value > 0 && value <= MAX_HOURS, 'give a number of hours above 0'),
  truth: z.enum(['true', 'false'], { error: 'give true or false' }).transform((value) => value === 'true'),
  serviceUrl: z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'give a URL of printable ASCII without space'),
  httpUrl: z
    .string()
    .refine(isHttpUrl, 'give an http(s) URL')
    .refine(hasReadableUser, 'write % in the user or password of the URL as %25'),
  databaseUrl: z
    .string()
    .refine(
      (text) => hasScheme(text, /^postgres(?:ql)?:$/),
      'give a URL such as postgres://user:password@host:5432/database'
    ),
  redisUrl: z
    .string()
    // The store parses it, and says what is wrong with the rest.
    .regex(/^rediss?:\/\/\S+$/, 'give a URL such as redis://host:6379, or redis://host1:6379,host2:6379 of a cluster'),
  bucketUrl: z.string().refine(isBucketUrl, 'give https://host[:port], without user and query'),
  // It stands in a header, and ends at a slash there.
  accessKeyId: z.string().regex(/^[\w.:@+-]{1,128}$/, 'give the name of a key, without spaces'),
  bucket: z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'give the name of a bucket'),
  region: z.string().regex(/^[\w-]{1,64}$/, 'give a region, such as eu-central-1'),
  origins: z
    .string()
    .transform(entriesOf)
    .refine(
      (entries) => entries.every((entry) => URL.canParse(entry) && new URL(entry).origin === entry),
      'give origins separated by commas, such as https://app.example'
    ),
  address: z.string().regex(/^0x[0-9a-fA-F]{40}$/, 'give a contract address, 0x and 40 hex digits'),
  did: z.string().refine(isKeyDid, 'give a DID, such as did:ethr:rsk:0x… (40 hex digits)'),
  network: z.string().refine(isEthrNetwork, 'give a network, such as rsk or rsk:testnet'),
  networks: z
    .string()
    // An empty name in a list could not be told from a slip.
    .transform((text) => entriesOf(text).map((name) => (name === 'ethereum' ? '' : name)))
    .refine(
      (names) => names.length > 0 && names.every(isEthrNetwork),
      'give networks separated by commas, such as rsk,ethereum (ethereum: DIDs without a network)'
    ),
  privateKey: z.string().refine(isPrivateKey, 'give a private key of secp256k1, 64 hex digits'),
  secret: z.string().refine((value) => Buffer.byteLength(value) >= 32, 'give 32 bytes or more'),
  trustProxy: z
    .string()
    .refine(
      (text) => /^(?:off|false|true|\d{1,3})$/.test(text) || entriesOf(text).every(isProxy),
      'give off, a number of proxies, or their addresses separated by commas'
    )
    .transform((text) => {
      if (text === 'true') return true
      if (text === 'off' || text === 'false') return false
      return /^\d+$/.test(text) ? Number(text) : entriesOf(text)
    }),
  logLevel: z.enum(['debug', 'info', 'warn', 'error', 'silent'], {
    error: 'give debug, info, warn, error or silent'
  }),
  logFormat: z.enum(['pretty', 'json'], { error: 'give pretty or json' }),
  loginDomains: z
    .string()
    .transform(entriesOf)
    .refine(
      (entries) => entries.every((entry) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(entry)),
      'give domains of printable ASCII separated by commas, such as app.example'
    ),
  loginDialects: z
    .string()
    .transform(entriesOf)
    .refine(
      (entries): entries is LoginDialect[] => entries.length > 0 && entries.every(isLoginDialect),
      'give login, url, or login,url'
    ),
  cookiePrefix: z.enum(['__Host-', '__Secure-'], { error: 'give __Host- or __Secure-' }),
  errorFormat: z.enum(['text', 'problem'], { error: 'give text or problem' }),
  connections: wholeNumber(1, 'give a number of connections, at least 1'),
  replayProtection: z.enum(['single-use', 'window'], { error: 'give single-use or window' })
} as const

function wholeNumber(least: number, remedy: string, most = Infinity): z.ZodType<number, string> {
  return z
    .string()
    .regex(/^\d{1,15}$/, remedy)
    .transform(Number)
    .refine((value) => value >= least && value <= most, remedy)
}
