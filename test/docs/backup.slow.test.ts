import { afterEach, describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { readDocument } from '../support/fixtures/documents.js'
import { ask, logIn, me, post, refresh } from '../support/servers/server-client.js'
import { ServerProcesses } from '../support/servers/server-process.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const [backup, restore] = readDocument('servers/BACKUP.md').blocks.map(({ code }) => code)
/** URLs of the servers, which stay the same although each start uses other ports: sessions are stored by URL. */
const urls = Object.fromEntries(
  ['auth', 'relay', 'vault'].map((name) => [`${name.toUpperCase()}_SERVICE_URL`, `https://${name}.example.com`])
)
const servers = new ServerProcesses(urls)
afterEach(() => servers.killAll())

/** Runs a block of the document in a folder with `data`. Replaces the SQLite shell of Debian by this engine. */
function type(cwd: string, code: string, shellOfSqlite?: string): Promise<unknown> {
  const engine = createRequire(import.meta.url).resolve('better-sqlite3')
  const script = `new (require('${engine}'))(process.argv[2]).exec(process.argv[3])`
  const shell = join(cwd, 'bin/sqlite3')
  mkdirSync(join(cwd, 'bin'), { recursive: true })
  writeFileSync(shell, `#!/bin/sh\n${shellOfSqlite ?? `exec '${process.execPath}' -e "${script}" - "$@"`}\n`)
  chmodSync(shell, 0o755)
  const env = { PATH: [join(cwd, 'bin'), process.env.PATH].join(delimiter) }
  return promisify(execFile)('sh', ['-c', code], { cwd, env })
}

describe('the backup of SQLite', () => {
  it('fails if a database cannot be copied, keeps the last archive, and creates no data folders', async () => {
    const cwd = join(servers.folder, 'other')
    mkdirSync(join(cwd, 'data/auth'), { recursive: true })
    writeFileSync(join(cwd, 'data/auth/auth.db'), '')
    await type(cwd, backup!)
    const last = readFileSync(join(cwd, 'backup.tar.gz'))
    await expect(type(cwd, backup!, 'exit 127')).rejects.toMatchObject({ code: 127 })
    expect(readFileSync(join(cwd, 'backup.tar.gz')).equals(last)).toBe(true)
    expect(readdirSync(join(cwd, 'data'))).toEqual(['auth'])
  })

  it('restores sessions and each acknowledged entry from a backup that ran during writes', async () => {
    const DATA_DIR = join(servers.folder, 'data')
    const { servers: first } = await servers.start({ DATA_DIR }, [], 'all')
    const findUrl = (all: typeof first, name: string): string => all.find(({ server }) => server === name)!.url
    const session = await logIn(findUrl(first, 'auth'), wallet, 'auth.example.com')
    const { accessToken } = await logIn(findUrl(first, 'vault'), wallet, 'vault.example.com')
    const headers = { Authorization: `DIDAuth ${accessToken}` }
    const acknowledged: string[] = []
    // One size above and one below the limit from which content is a separate file.
    const write = async (): Promise<void> => {
      const content = `${acknowledged.length} `.repeat(acknowledged.length % 3 === 0 ? 40_000 : 40)
      const { status } = await post(`${findUrl(first, 'vault')}/notes`, { content }, headers)
      expect(status).toBe(201)
      acknowledged.push(content)
    }
    for (let count = 0; count < 12; count += 1) await write()
    let isDone = false
    const writing = (async () => {
      while (!isDone) await write()
    })()
    const before = acknowledged.length
    await type(servers.folder, backup!).finally(() => {
      isDone = true
      return writing
    })
    await servers.stopAll()
    await type(servers.folder, restore!)
    const { servers: second } = await servers.start({ DATA_DIR }, [], 'all')
    const { status, text } = await ask(`${findUrl(second, 'vault')}/${wallet.did}/notes`)
    const entries = JSON.parse(text) as string[]
    expect([status, entries]).toEqual([200, acknowledged.slice(0, entries.length)])
    expect(entries.length).toBeGreaterThanOrEqual(before)
    expect((await me(findUrl(second, 'auth'), session.accessToken)).status).toBe(200)
    expect((await refresh(findUrl(second, 'auth'), session.refreshToken)).status).toBe(200)
  })
})
