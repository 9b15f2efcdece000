import { describe, expect, it } from '@jest/globals'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parsePostgresUrl } from '../../src/stores/postgres/postgres-url.js'
import { folderOfEachTest } from '../support/fixtures/folder-of-each-test.js'

const URL_ = 'postgres://u:p@h/d'

describe('parsePostgresUrl', () => {
  const folder = folderOfEachTest()

  it.each([
    ['', undefined],
    ['?sslmode=disable', false],
    ['?ssl=0', false],
    ['?ssl=true', {}],
    ['?sslmode=require', {}],
    ['?sslmode=verify-full&ssl=0', {}],
    ['?sslmode=no-verify', { rejectUnauthorized: false }],
    ['?sslmode=require&uselibpqcompat=true', {}]
  ])('returns the option of TLS instead of parameters: %j', (query, ssl) => {
    expect(parsePostgresUrl(URL_ + query)).toEqual({ connectionString: URL_, ...(ssl !== undefined && { ssl }) })
    expect(parsePostgresUrl(URL_ + query, 'CA')).toEqual({ connectionString: URL_, ssl: { ca: 'CA' } })
  })

  it('keeps other parameters, and passes the negotiation on', () => {
    expect(parsePostgresUrl(`${URL_}?options=-c&sslnegotiation=direct`, 'CA')).toEqual({
      connectionString: `${URL_}?options=-c`,
      ssl: { ca: 'CA' },
      sslnegotiation: 'direct'
    })
  })

  it('reads the files of certificates that the URL names; `ca` replaces that of the authority', () => {
    const file = (name: string): string => {
      writeFileSync(join(folder.path, name), name)
      return encodeURIComponent(join(folder.path, name))
    }
    const url = `${URL_}?sslrootcert=${file('root')}&sslcert=${file('cert')}&sslkey=${file('key')}`
    expect(parsePostgresUrl(url).ssl).toEqual({ ca: 'root', cert: 'cert', key: 'key' })
    expect(parsePostgresUrl(url, 'CA').ssl).toEqual({ ca: 'CA', cert: 'cert', key: 'key' })
    expect(() => parsePostgresUrl(`${URL_}?sslkey=/missing`)).toThrow(
      'cannot read the file of sslkey in a PostgreSQL URL'
    )
  })

  it.each(['?sslmode=hunter2', '?ssl=hunter2', '?sslmode=toString'])('refuses an unknown mode: %s', (query) => {
    expect(() => parsePostgresUrl(URL_ + query)).toThrow(
      /has an unknown (?:ssl|sslmode): give verify-full, disable or no-verify as sslmode$/
    )
  })
})
