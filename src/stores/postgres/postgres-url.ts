import { readFileSync } from 'node:fs'

/** Parameters of a URL about TLS. They are not passed to pg, where they replace the option `ssl`. */
const TLS_PARAMETERS = ['ssl', 'sslmode', 'sslcert', 'sslkey', 'sslrootcert', 'sslnegotiation', 'uselibpqcompat']

/** Meaning of the values of `sslmode` and `ssl`. As in pg, all modes with TLS verify the server, except `no-verify`. */
const MODES: Readonly<Record<string, 'on' | 'off' | 'unverified'>> = {
  disable: 'off',
  prefer: 'on',
  require: 'on',
  'verify-ca': 'on',
  'verify-full': 'on',
  'no-verify': 'unverified',
  true: 'on',
  1: 'on',
  false: 'off',
  0: 'off'
}

/** Options of pg about TLS. `ssl` is absent if neither the URL nor the caller decides, so that `PGSSLMODE` counts. */
interface TlsOptions {
  ssl?: false | { ca?: string; cert?: string; key?: string; rejectUnauthorized?: false }
  sslnegotiation?: string
}

/**
 * Returns the options of pg for a URL. With `ca`, the server is always verified, whatever the URL says.
 *
 * @param ca - CA certificates as PEM text. Default: the file that the parameter `sslrootcert` names
 * @throws TypeError for an invalid URL, or an unknown `ssl` or `sslmode`, without repeating the URL; Error for a file
 *   that cannot be read
 */
export function parsePostgresUrl(text: string, ca?: string): TlsOptions & { connectionString: string } {
  // The error of `new URL` would contain the text with its password.
  if (!URL.canParse(text) || !/^postgres(ql)?:/.test(text)) {
    throw new TypeError('express-did-auth: a PostgreSQL store needs a URL such as postgres://user@host/database')
  }
  const url = new URL(text)
  const parameters = new Map(TLS_PARAMETERS.map((name) => [name, url.searchParams.get(name) ?? '']))
  // A URL without parameters about TLS stays as it is: pg decodes some spellings in another way than URLs.
  if ([...parameters.values()].every((value) => value === ''))
    return { connectionString: text, ...(ca !== undefined && { ssl: { ca } }) }
  for (const name of TLS_PARAMETERS) url.searchParams.delete(name)
  const files = { ca: 'sslrootcert', cert: 'sslcert', key: 'sslkey' } as const
  const read = Object.entries(files).flatMap(([option, name]) => {
    const file = parameters.get(name) ?? ''
    return file === '' || (option === 'ca' && ca !== undefined) ? [] : [[option, readFile(file, name)] as const]
  })
  const certificates = { ...Object.fromEntries(read), ...(ca !== undefined && { ca }) }
  const sslnegotiation = parameters.get('sslnegotiation') ?? ''
  const usesTls = Object.keys(certificates).length > 0 || sslnegotiation === 'direct'
  const mode = findMode(parameters) ?? (usesTls ? 'on' : undefined)
  const isOff = mode === undefined || (mode === 'off' && ca === undefined)
  return {
    connectionString: url.href,
    ...(isOff
      ? mode === 'off' && { ssl: false as const }
      : {
          ssl: {
            ...certificates,
            ...(mode === 'unverified' && ca === undefined && { rejectUnauthorized: false as const })
          }
        }),
    ...(sslnegotiation !== '' && { sslnegotiation })
  }
}

function findMode(parameters: ReadonlyMap<string, string>): (typeof MODES)[string] | undefined {
  const name = parameters.get('sslmode') === '' ? 'ssl' : 'sslmode'
  const value = parameters.get(name) ?? ''
  if (value === '') return undefined
  const mode = Object.hasOwn(MODES, value) ? MODES[value] : undefined
  if (mode !== undefined) return mode
  const remedy = 'give verify-full, disable or no-verify as sslmode'
  throw new TypeError(`express-did-auth: a PostgreSQL URL has an unknown ${name}: ${remedy}`)
}

function readFile(file: string, name: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Error(`express-did-auth: cannot read the file of ${name} in a PostgreSQL URL`, { cause })
  }
}
