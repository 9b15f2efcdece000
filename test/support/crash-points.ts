import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ipfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'
import { startFaultyNode } from './faulty-ipfs-node.js'
import type { IpfsVerb } from './ipfs-faults.js'
import { temporaryFolder } from './store-folder.js'
import { drained, faultsInside, vaultInside } from './vault-parts.js'

/** A point at which a vault's process is killed, and how the write is found afterwards. */
export interface CrashPoint {
  name: string
  /** What the process is doing: `<verb>:<key>:<content>` after `old` was written under `old`. */
  write: string
  /** Between two statements, or at the node. */
  at: { sql: string; when: 'before' | 'after'; arm?: string } | { verb: IpfsVerb; phase: 'before' | 'after' }
  /** Whether the write happened. */
  isDone: boolean
}

const WANT = "SELECT @cid, 'pin'"
const UNWANT = "SELECT cid, 'unpin'"
const MARK = "SET state = 'pinned'"
const FORGET = 'DELETE FROM vault_pins WHERE revision'

const add = 'add:new:new'
const remove = 'remove:old'
const put = 'put:old:new'

/** Every point between content, index, pin and unpin. */
export const crashPoints: readonly CrashPoint[] = [
  { name: 'add, after the blocks', write: add, at: { sql: 'INSERT INTO blocks', when: 'after' }, isDone: false },
  { name: 'add, after the entry', write: add, at: { sql: 'INSERT INTO entries', when: 'after' }, isDone: false },
  { name: 'add, after the intent', write: add, at: { sql: WANT, when: 'after' }, isDone: false },
  { name: 'add, before the commit', write: add, at: { sql: '^COMMIT', when: 'before', arm: WANT }, isDone: false },
  { name: 'add, after the commit', write: add, at: { sql: '^COMMIT', when: 'after', arm: WANT }, isDone: true },
  { name: 'add, while the node adds', write: add, at: { verb: 'add', phase: 'before' }, isDone: true },
  { name: 'add, when the node has added', write: add, at: { verb: 'add', phase: 'after' }, isDone: true },
  { name: 'add, before the pin is marked', write: add, at: { sql: MARK, when: 'before' }, isDone: true },
  {
    name: 'add, before the mark is committed',
    write: add,
    at: { sql: '^COMMIT', when: 'before', arm: MARK },
    isDone: true
  },
  {
    name: 'add, after the mark is committed',
    write: add,
    at: { sql: '^COMMIT', when: 'after', arm: MARK },
    isDone: true
  },
  { name: 'remove, after the entry', write: remove, at: { sql: 'DELETE FROM entries', when: 'after' }, isDone: false },
  { name: 'remove, after the blocks', write: remove, at: { sql: 'DELETE FROM blocks', when: 'after' }, isDone: false },
  { name: 'remove, after the intent', write: remove, at: { sql: UNWANT, when: 'after' }, isDone: false },
  {
    name: 'remove, before the commit',
    write: remove,
    at: { sql: '^COMMIT', when: 'before', arm: UNWANT },
    isDone: false
  },
  { name: 'remove, after the commit', write: remove, at: { sql: '^COMMIT', when: 'after', arm: UNWANT }, isDone: true },
  { name: 'remove, while the node unpins', write: remove, at: { verb: 'pin/rm', phase: 'before' }, isDone: true },
  { name: 'remove, when the node has unpinned', write: remove, at: { verb: 'pin/rm', phase: 'after' }, isDone: true },
  { name: 'remove, before the pin is forgotten', write: remove, at: { sql: FORGET, when: 'before' }, isDone: true },
  {
    name: 'remove, before that is committed',
    write: remove,
    at: { sql: '^COMMIT', when: 'before', arm: FORGET },
    isDone: true
  },
  {
    name: 'remove, after that is committed',
    write: remove,
    at: { sql: '^COMMIT', when: 'after', arm: FORGET },
    isDone: true
  },
  {
    name: 'replace, between old and new',
    write: put,
    at: { sql: 'DELETE FROM entries', when: 'after' },
    isDone: false
  },
  {
    name: 'replace, after the new entry',
    write: put,
    at: { sql: 'INSERT INTO entries', when: 'after' },
    isDone: false
  },
  { name: 'replace, after both intents', write: put, at: { sql: UNWANT, when: 'after' }, isDone: false },
  { name: 'replace, after the commit', write: put, at: { sql: '^COMMIT', when: 'after', arm: UNWANT }, isDone: true },
  { name: 'replace, while the node adds', write: put, at: { verb: 'add', phase: 'before' }, isDone: true },
  { name: 'replace, while the node unpins', write: put, at: { verb: 'pin/rm', phase: 'before' }, isDone: true }
]

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url))
const killAt = pathToFileURL(here('./kill-at.ts')).href
const imports = pathToFileURL(here('./server-imports.ts')).href

/** Kills a vault's process at a point, starts again on what it left, and answers what is wrong then. */
export async function crashAt({ write, at, isDone }: CrashPoint): Promise<string[]> {
  const folder = temporaryFolder()
  const file = join(folder.path, 'vault.db')
  let kill = (): void => undefined
  const server = await startFaultyNode({
    onCall: (verb, phase) => {
      if ('verb' in at && at.verb === verb && at.phase === phase) kill()
    }
  })
  const node = ipfsHttpNode(server.url)
  server.pins.add('bafkreihjvo6hw55r2yycxdvdovcqcqgzylvm64ejdkg7yj7y4ldkh6r4am')
  try {
    const first = vaultInside(file, node)
    await first.vault.add('did:ethr:rsk:0xa', 'old', Buffer.from('old'))
    await drained(first, 20_000)
    await first.close()

    const isSql = 'sql' in at
    const env = isSql && {
      TEST_KILL_SQL: at.sql.replaceAll(/[@()]/g, '\\$&'),
      TEST_KILL_WHEN: at.when,
      ...(at.arm !== undefined && { TEST_KILL_ARM: at.arm.replaceAll(/[@()]/g, '\\$&') })
    }
    const hooks = isSql ? ['--import', killAt] : []
    const child = spawn(
      process.execPath,
      ['--import', 'tsx', '--import', imports, ...hooks, here('./vault-child.ts'), file, server.url, write],
      { env: { PATH: process.env.PATH, ...env }, stdio: ['ignore', 'ignore', 'inherit'] }
    )
    kill = () => child.kill('SIGKILL')
    const signal = await new Promise((resolve) =>
      child.once('close', (_code, signal) => {
        resolve(signal)
      })
    )
    kill = () => undefined

    const again = vaultInside(file, node)
    again.outbox?.start()
    await drained(again, 40_000)
    const [, key = '', text] = write.split(':')
    const texts = (one: string): string =>
      again.index
        .find('did:ethr:rsk:0xa', one)
        .map(({ id }) => Buffer.from(again.contents.read(id) ?? 'lost').toString())
        .join()
    const before = key === 'old' ? 'old' : ''
    const expected = isDone ? (text ?? '') : before
    const wanted = again.database.prepare<[], string>('SELECT DISTINCT cid FROM entries').pluck().all()
    wanted.push('bafkreihjvo6hw55r2yycxdvdovcqcqgzylvm64ejdkg7yj7y4ldkh6r4am')
    const faults = [
      ...(signal === 'SIGKILL' ? [] : ['the process was not killed']),
      ...(texts(key) === expected ? [] : [`${key} is ${texts(key)} and not ${expected}`]),
      ...(key === 'old' || texts('old') === 'old' ? [] : ['what was there before is gone']),
      ...(again.intents.countOpen() === 0 ? [] : ['the outbox does not drain']),
      ...([...server.pins].sort().join() === wanted.sort().join()
        ? []
        : [`pins ${[...server.pins].join()} for ${wanted.join()}`]),
      ...faultsInside(again)
    ]
    await again.close()
    return faults
  } finally {
    node.close()
    await server.stop()
    folder.remove()
  }
}
