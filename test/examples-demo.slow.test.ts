import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))

describe('examples/demo.ts', () => {
  const TMPDIR = mkdtempSync(join(tmpdir(), 'did-auth-examples-'))
  let printed = ''

  beforeAll(async () => {
    const imports = pathToFileURL(join(root, 'test/support/servers/server-imports.ts')).href
    const args = ['--import', 'tsx', '--import', imports, 'examples/demo.ts']
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root, env: { ...process.env, TMPDIR } })
    printed = stdout
  })
  afterAll(() => rmSync(TMPDIR, { recursive: true, force: true }))

  it('runs the login, as printed', () => {
    expect(printed).toContain('-> 401: An e-mail credential is needed\n')
    expect(printed).toMatch(/its subject is another user\n +-> 401: Invalid credential\n/)
    expect(printed).toMatch(/its issuer is not trusted\n +-> 401: That issuer is not trusted\n/)
    expect(printed).toMatch(/that session is revoked\n +-> 401: Refresh token used twice: session revoked\n/)
    expect(printed).toContain('"email":"ada@example.org"')
  })

  it('runs the relay: the second user reads what the relay cannot', () => {
    expect(printed).toMatch(/QR code: relay:\/\/bafkrei[a-z2-7]{52}#[\w-]{43}\)\n/)
    expect(printed).toMatch(/by its cid and decrypts it\n +-> 200: The treasure lies under the old oak\n/)
    expect(printed).toContain('logs contain the encrypted file, and neither the key nor the text')
  })

  it('runs the vault, also while the IPFS node is switched off', () => {
    expect(printed).toMatch(/encrypts private notes\n +-> 200: \["Milk","Bread"\]\n/)
    expect(printed).toMatch(/is switched off\)\n.* Reads still work\n +-> 200: \["Bread","Oat milk"\]\n/)
    expect(printed).toMatch(/Writes still work.*\n +-> 200: .*, pin pending\n/)
    expect(printed).toMatch(/The notes are gone\n +-> 200: \[\]\n/)
  })

  it('exits on its own, and leaves no files', () => {
    expect(printed).toMatch(/The demo is complete\. .*\n$/)
    // tsx caches its output.
    expect(readdirSync(TMPDIR).filter((name) => !name.startsWith('tsx-'))).toEqual([])
  })
})
