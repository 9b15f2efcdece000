import { describe, expect, it, jest } from '@jest/globals'
import { createHash } from 'node:crypto'
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { readEnv } from '../../../servers/config/read-env.js'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { cidOf } from '../../../servers/content/unixfs-blocks.js'
import type { Manifest } from '../../../servers/tools/backup-folder.js'
import { runBackup } from '../../../servers/tools/backup.js'
import type { CommandLine } from '../../../servers/tools/command-line.js'
import { runCopy } from '../../../servers/tools/copy.js'
import { runDoctor } from '../../../servers/tools/doctor/command.js'
import { runMigrate } from '../../../servers/tools/migrate.js'
import { runReconcile } from '../../../servers/tools/reconcile.js'
import { runRestore } from '../../../servers/tools/restore.js'
import { createTakedownCommand } from '../../../servers/tools/takedown.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'
import { filesIn } from '../../support/fixtures/store-folder.js'
import { runCommand } from '../../support/servers/command-line.js'
import { createFile } from '../../support/servers/content-stores.js'
import { fillVault, findVaultFaults, openDatabase } from '../../support/servers/vault-app.js'

const folder = folderOfEachTest()
const { did } = createNumberedWallet(1)
const LARGE = 'large '.repeat(20_000)
const entries = [
  ['notes', 'small'],
  ['notes', LARGE],
  ['other', 'small']
] as const
const at = (name: string): string => join(folder.path, name)

/** Creates a `DATA_DIR` with sessions, keys and a vault. */
async function createData(): Promise<void> {
  await sqliteStore((mkdirSync(at('data/auth'), { recursive: true }), at('data/auth/auth.db'))).close()
  writeFileSync(at('data/private-key'), 'secret\n')
  const { store } = await openContentStore({ folder: at('data/vault'), database: 'vault.db' })
  await fillVault({ store }, did, entries)
  await store.close()
}

const backUp = (target = at('backup')) => runCommand(runBackup, [target], { DATA_DIR: at('data') })
const restore = (DATA_DIR = at('restored')) => runCommand(runRestore, [at('backup')], { DATA_DIR })

/** Returns the ETag of a list, which depends on all of its entries. */
async function readEtag(data: string): Promise<string> {
  const { store } = await openContentStore({ folder: join(data, 'vault'), database: 'vault.db' })
  const { etag } = await store.listEntries({ did, key: 'notes' })
  await store.close()
  return etag
}

describe('backup and restore', () => {
  it('copies sessions, keys, database and objects into private files', async () => {
    await createData()
    expect((await backUp()).code).toBe(0)
    const paths = filesIn(at('backup')).map((path) => path.slice(at('backup').length + 1))
    const objects = paths.filter((path) => path.includes('/objects/'))
    expect(objects).toHaveLength(1)
    expect(paths.toSorted()).toEqual(
      ['auth/auth.db', 'manifest.json', 'private-key', 'vault/vault.db', ...objects].toSorted()
    )
    expect(filesIn(at('backup')).map((path) => statSync(path).mode & 0o777)).toEqual(paths.map(() => 0o600))
    expect(statSync(at('backup/vault')).mode & 0o777).toBe(0o700)
    const { code, lines } = await restore()
    expect([code, lines.at(-1)]).toEqual([0, 'Start the servers, then run `vault reconcile`.'])
    expect(readFileSync(at('restored/private-key'), 'utf8')).toBe('secret\n')
    expect(existsSync(at('restored/auth/auth.db'))).toBe(true)
    expect(await findVaultFaults({ DATA_DIR: at('restored') })).toEqual([])
    expect(await readEtag(at('restored'))).toBe(await readEtag(at('data')))
  })

  it('succeeds if all objects are deleted right after the snapshot', async () => {
    const { store } = await openContentStore({ folder: at('data/relay'), database: 'relay.db' })
    for (let number = 0; number < 20; number += 1) await store.writeFile(createFile(`${number} ${LARGE}`))
    await store.close()
    const writing = backUp()
    let isOver = false
    void writing.finally(() => (isOver = true)).catch(() => undefined)
    while (!isOver && !existsSync(at('backup/relay/relay.db'))) await nextTurn()
    const connection = openDatabase(at('data/relay/relay.db'))
    connection.exec('DELETE FROM files; DELETE FROM contents')
    connection.close()
    rmSync(at('data/relay/objects'), { recursive: true })
    expect((await writing).code).toBe(0)
    expect((await restore()).code).toBe(0)
  })

  it('reports content that the source has lost, and keeps all other content', async () => {
    await createData()
    rmSync(at('data/vault/objects'), { recursive: true })
    const { code, lines } = await backUp()
    expect(code).toBe(1)
    expect(lines.at(-1)).toMatch(/^NOT in the backup: baf\w+ is missing or damaged\. Run `vault reconcile`\.$/)
    const { code: restored, lines: report } = await restore()
    expect([restored, report.at(-1)]).toEqual([1, expect.stringMatching(/^NOT in the backup: baf\w+$/)])
    expect(await readEtag(at('restored'))).toBe(await readEtag(at('data')))
  })

  it('does not copy an object whose bytes were changed', async () => {
    await createData()
    const [object = ''] = filesIn(at('data/vault/objects'))
    writeFileSync(object, LARGE.replace('large', 'other'))
    const { code, lines } = await backUp()
    expect([code, lines.at(-1)]).toEqual([1, expect.stringContaining('NOT in the backup: ')])
    expect(filesIn(at('backup')).filter((path) => path.includes('/objects/'))).toEqual([])
  })

  it('refuses a folder that is not empty, and a DATA_DIR without data', async () => {
    await expect(backUp()).rejects.toThrow(/^There is nothing to back up in .*data \(DATA_DIR\)$/)
    await createData()
    writeFileSync(join((mkdirSync(at('used')), at('used')), 'file'), '')
    await expect(backUp(at('used'))).rejects.toThrow(/used is not empty\. Name a new folder\.$/)
    expect(readdirSync(at('used'))).toEqual(['file'])
    rmSync(at('backup'), { recursive: true })
    await backUp()
    await expect(restore(at('used'))).rejects.toThrow(
      /used is not empty\. Move it away, or set DATA_DIR to a new folder\.$/
    )
    expect(readdirSync(at('used'))).toEqual(['file'])
  })

  const damages: [string, (object: string) => void, RegExp][] = [
    ['a changed object', (object) => writeFileSync(object, LARGE.replace('large', 'other')), /objects.* was changed$/],
    ['a missing object', (object) => rmSync(object), /objects.*: it does not exist$/],
    ['a shorter database', () => writeFileSync(at('backup/vault/vault.db'), ''), /vault\.db was changed$/],
    ['no manifest', () => rmSync(at('backup/manifest.json')), /it has no manifest\.json$/],
    [
      'a manifest that is no JSON',
      () => writeFileSync(at('backup/manifest.json'), '{'),
      /manifest\.json cannot be read$/
    ],
    [
      'a manifest without a file',
      () => {
        const manifest = JSON.parse(readFileSync(at('backup/manifest.json'), 'utf8')) as { files: object[] }
        writeFileSync(at('backup/manifest.json'), JSON.stringify({ ...manifest, files: manifest.files.slice(1) }))
      },
      /manifest\.json was changed$/
    ]
  ]
  it.each(damages)('refuses to restore %s, and writes nothing', async (_name, damage, message) => {
    await createData()
    await backUp()
    damage(filesIn(at('backup/vault/objects'))[0]!)
    await expect(restore()).rejects.toThrow(message)
    expect(existsSync(at('restored'))).toBe(false)
  })

  /** Changes the manifest of the backup, and computes its checksum again, as an attacker would. */
  function forgeManifest(change: (manifest: Manifest) => void): void {
    const path = at('backup/manifest.json')
    const { checksum: _old, ...manifest } = JSON.parse(readFileSync(path, 'utf8')) as Manifest & { checksum: string }
    change(manifest)
    const checksum = createHash('sha256').update(JSON.stringify(manifest)).digest('hex')
    writeFileSync(path, JSON.stringify({ ...manifest, checksum }))
  }

  const victim = 'victim\n'
  const paths = (): string[] => [
    '../victim.txt',
    'vault/../../victim.txt',
    at('victim.txt'),
    '..\\victim.txt',
    'C:victim.txt',
    'vault//victim.txt',
    './victim.txt',
    'vault/',
    '..',
    'victim\0.txt',
    '',
    // Inside the folder, but no files of a backup.
    '.env',
    'restore-unfinished',
    'private-key.1',
    'auth/vault.db',
    'vault/relay.db',
    'vault/spool/a',
    'vault/objects/ab/.hidden',
    'vault_entries.jsonl.gz'
  ]
  it('refuses each path that leaves the folder, or that no backup has, and keeps the file there', async () => {
    await createData()
    await backUp()
    writeFileSync(at('victim.txt'), victim)
    for (const path of paths()) {
      forgeManifest(({ files }) => {
        files[0] = { path, bytes: victim.length, sha256: createHash('sha256').update(victim).digest('hex') }
      })
      await expect(restore()).rejects.toThrow(/manifest\.json cannot be read$/)
    }
    expect(readFileSync(at('victim.txt'), 'utf8')).toBe(victim)
    expect(existsSync(at('restored'))).toBe(false)
  })

  it('refuses links and pipes instead of files, without waiting for a pipe', async () => {
    await createData()
    const replacements: [string, (path: string) => void][] = [
      ['private-key', (path) => symlinkSync(at('data/private-key'), path)],
      ['vault/vault.db', (path) => spawnSync('mkfifo', [path])],
      ['vault', (path) => symlinkSync(at('moved'), path)],
      ['manifest.json', (path) => spawnSync('mkfifo', [path])]
    ]
    for (const [name, replace] of replacements) {
      for (const folderName of ['backup', 'moved']) rmSync(at(folderName), { recursive: true, force: true })
      await backUp()
      renameSync(at(`backup/${name}`), at('moved'))
      replace(at(`backup/${name}`))
      await expect(restore()).rejects.toThrow(
        name === 'manifest.json'
          ? /manifest\.json cannot be read$/
          : new RegExp(`${name}.*: it is a link, or no regular file$`)
      )
    }
    expect(existsSync(at('restored'))).toBe(false)
  })

  const createRefusal = (path: string): string =>
    `Other users may change ${path}. If you trust the backup, restore a copy of your own: ` +
    `cp -R ${at('backup')} copy && chmod -R go-w copy`

  it('refuses a folder or a file that other users may change', async () => {
    await createData()
    await backUp()
    const [object = ''] = filesIn(at('backup/vault/objects'))
    const names = ['backup', 'backup/vault', 'backup/manifest.json', 'backup/private-key', 'backup/vault/vault.db']
    for (const path of [...names.map(at), object]) {
      const { mode } = statSync(path)
      for (const added of [0o020, 0o002]) {
        chmodSync(path, mode | added)
        await expect(restore()).rejects.toThrow(createRefusal(path))
      }
      chmodSync(path, mode)
    }
    expect((await restore()).code).toBe(0)
  })

  it('refuses a folder or a file of another user than this one and root', async () => {
    await createData()
    await backUp()
    const uid = process.getuid!()
    if (uid === 0) {
      const other = 65_534
      for (const name of ['backup', 'backup/vault', 'backup/manifest.json', 'backup/private-key'].map(at)) {
        chownSync(name, other, 0)
        await expect(restore()).rejects.toThrow(createRefusal(name))
        chownSync(name, 0, 0)
      }
    }
    const getUid = jest.spyOn(process, 'getuid').mockReturnValue(uid + 1)
    // Now all files belong to another user, or to root, which is trusted.
    if (uid !== 0) await expect(restore()).rejects.toThrow(createRefusal(at('backup')))
    else expect((await restore()).code).toBe(0)
    getUid.mockRestore()
  })

  it('deletes what it has written if a database has other rows than the manifest', async () => {
    await createData()
    await backUp()
    forgeManifest(({ tables }) => {
      tables['vault/vault.db:entries'] = { rows: 4 }
    })
    await expect(restore()).rejects.toThrow('The restore failed: vault/vault.db:entries has 3 rows')
    expect(readdirSync(at('restored'))).toEqual([])
  })

  it('marks the folder, which may be a mount point, from before the first file until after the last', async () => {
    await createData()
    await backUp()
    mkdirSync(at('restored'))
    const { ino } = statSync(at('restored'))
    const states = new Set<string>()
    let isDone = false
    const restoring = restore().finally(() => (isDone = true))
    while (!isDone) {
      states.add(readdirSync(at('restored')).toSorted().join())
      await nextTurn()
    }
    expect((await restoring).code).toBe(0)
    const whole = 'auth,private-key,vault'
    expect([...states].filter((state) => !state.includes('restore-unfinished'))).toEqual(
      states.has(whole) ? ['', whole] : ['']
    )
    expect(states.size).toBeGreaterThan(2)
    expect(readdirSync(at('restored')).toSorted().join()).toBe(whole)
    expect(statSync(at('restored')).ino).toBe(ino)
  })

  it('is refused by all commands that read DATA_DIR while a restore has not finished', async () => {
    mkdirSync(at('restored'))
    writeFileSync(at('restored/restore-unfinished'), '')
    const env = { DATA_DIR: at('restored') }
    const message = `DATA_DIR: a restore to ${at('restored')} did not finish; delete everything in that folder, then restore again`
    const cid = cidOf(new Uint8Array())
    const commands: [(commandLine: CommandLine) => Promise<number>, string[]][] = [
      [runBackup, [at('backup')]],
      [runRestore, [at('backup')]],
      [runReconcile, []],
      [createTakedownCommand('relay'), [cid]],
      [createTakedownCommand('vault'), [cid]],
      [runCopy, ['--from', at('restored')]],
      [runMigrate, []]
    ]
    for (const [command, args] of commands) await expect(runCommand(command, args, env)).rejects.toThrow(message)
    for (const name of ['auth', 'relay', 'vault'] as const) expect(() => readEnv(env, name, false)).toThrow(message)
    const { code, lines } = await runCommand(runDoctor, ['--json', '--server', 'relay'], env)
    expect([code, lines.join()]).toEqual([1, expect.stringContaining(message)])
    expect(readdirSync(at('restored'))).toEqual(['restore-unfinished'])
  })

  it('refuses a backup of SQLite for a database', async () => {
    await createData()
    await backUp()
    const env = { DATA_DIR: at('restored'), DATABASE_URL: 'postgres://127.0.0.1:1/none' }
    await expect(runCommand(runRestore, [at('backup')], env)).rejects.toThrow(
      'This is a backup of SQLite. Unset DATABASE_URL, restore it, then run `copy`.'
    )
  })
})
