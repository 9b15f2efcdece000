import { describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readEnv } from '../../servers/config/read-env.js'
import { serverErrors } from '../../servers/http/server-error.js'
import { readDocument, root } from '../support/documents.js'
import { tableUnder } from '../support/readme.js'

const page = readDocument('servers/vault/README.md')

describe("the vault's page", () => {
  it('lists the routes of the code', () => {
    const code = readFileSync(join(root, 'servers/vault/vault-routes.ts'), 'utf8')
    const routes = [...code.matchAll(/router\.(get|post|put|delete)\('([^']+)'/g)]
    const inCode = routes.map(([, verb = '', path = '']) => `${verb.toUpperCase()} \`${path}\``)
    const inPage = tableUnder(page, 'Routes').map(([verb = '', path = '']) => `${verb} ${path}`)
    expect(inPage.filter((route) => !route.includes('/health')).sort()).toEqual(inCode.sort())
  })

  it('has the bounds of the variables as their defaults', () => {
    const env = readEnv({}, 'vault', false)
    expect([env.VAULT_MAX_CONTENT_BYTES, env.VAULT_MAX_BYTES_PER_DID, env.VAULT_MAX_ENTRIES_PER_DID]).toEqual([
      1_048_576, 67_108_864, 10_000
    ])
    const bounds = tableUnder(page, 'Limits').map(([, bound]) => bound)
    expect(bounds.slice(0, 3)).toEqual(['1 MiB', '64 MiB', '10,000'])
  })

  it('lists no status that no error has', () => {
    const known = new Set<string>([...Object.values(serverErrors).map(([status]) => String(status)), '401', '429'])
    expect(tableUnder(page, 'Errors').filter(([status = '']) => !known.has(status))).toEqual([])
  })
})
