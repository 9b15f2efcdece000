import Database from 'better-sqlite3'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { cidOf } from '../../../servers/content/unixfs-blocks.js'
import { Dictionary, type LoadUser } from '../models/vault-load.js'
import { startFaultyNode, type FaultyIpfsNode, type FaultyNodeOptions } from '../faults/faulty-ipfs-node.js'
import type { IpfsVerb } from '../faults/ipfs-faults.js'
import { findVaultFaults } from './vault-app.js'
import { ask, logIn } from './server-client.js'
import { ServerProcesses, type ServerProcess } from './server-process.js'
import { scaled } from '../fixtures/time-factor.js'
import { until } from '../fixtures/until.js'
import { createNumberedWallet } from '../fixtures/fixtures.js'

const DOMAIN = 'vault.example'

/** Processes of a vault with an IPFS node, in one folder. */
export interface VaultWithNode {
  folder: string
  node: FaultyIpfsNode
  /** Starts a process on the data of the previous one, as if 20 s had passed since its kill. */
  start(): Promise<ServerProcess>
  /** Logs in `count` users, who have written nothing. */
  logIn(url: string, count: number, firstWallet: number): Promise<LoadUser[]>
  /** Waits until the pins of the node match the stored contents, and returns the remaining faults. */
  findFaults(): Promise<string[]>
  stop(): Promise<void>
}

export async function startVaultWithNode(
  env: Record<string, string> = {},
  options: FaultyNodeOptions = {}
): Promise<VaultWithNode> {
  const node = await startFaultyNode(options)
  const servers = new ServerProcesses({
    SERVICE_URL: `https://${DOMAIN}`,
    LOG_LEVEL: 'warn',
    IPFS_API_URL: node.url,
    MAX_REQUESTS_PER_TIME_SLOT: '10000000',
    ...env
  })
  const file = join(servers.folder, 'vault', 'vault.db')
  return {
    folder: servers.folder,
    node,
    start: () => {
      if (existsSync(file)) endLeases(file)
      return servers.start({}, [], 'vault')
    },
    async logIn(url, count, firstWallet) {
      const users: LoadUser[] = []
      for (let number = 0; number < count; number += 1) {
        const wallet = createNumberedWallet(firstWallet + number)
        const { accessToken } = await logIn(url, wallet, DOMAIN)
        users.push({ did: wallet.did, accessToken, model: new Dictionary(), uncertain: undefined })
      }
      return users
    },
    findFaults: async () => [
      ...(await drainPins(file, () => node.pins)),
      ...(await findVaultFaults({ DATA_DIR: servers.folder, IPFS_API_URL: node.url }))
    ],
    async stop() {
      await servers.killAll()
      await node.stop()
    }
  }
}

/** Expires the leases of a killed process, as if 20 s had passed. */
export function endLeases(file: string): void {
  new Database(file).exec('UPDATE pins SET claimed_until = 0').close()
}

/**
 * Waits until the server of a vault has executed its pin ledger. Delayed retries are made due at once.
 *
 * @param file - the vault's database
 * @param listPins - returns the pins of the node, without the code under test
 * @returns the remaining differences of the node and the ledger from the entries
 */
export async function drainPins(
  file: string,
  listPins: () => Iterable<string> | Promise<Iterable<string>>
): Promise<string[]> {
  const database = new Database(file)
  const entries = database.prepare<[], string>('SELECT DISTINCT cid FROM entries ORDER BY cid').pluck()
  const open = database.prepare<[], number>("SELECT count(*) FROM pins WHERE state <> 'pinned'").pluck()
  const makeRetriesDue = database.prepare(
    "UPDATE pins SET retry_at = 0 WHERE state <> 'pinned' AND retry_at > unixepoch()"
  )
  const findFaults = async (): Promise<string[]> => {
    const stored = entries.all()
    const pins = [...(await listPins())].sort()
    const count = open.get() ?? 0
    return [
      ...(pins.join() === stored.join() ? [] : [`${pins.length} pins on the node for ${stored.length} contents`]),
      ...(count === 0 ? [] : [`${count} pins are open`])
    ]
  }
  try {
    const end = performance.now() + scaled(50_000)
    for (;;) {
      const faults = await findFaults()
      if (faults.length === 0 || performance.now() > end) return faults
      makeRetriesDue.run()
      await pause(50)
    }
  } finally {
    database.close()
  }
}

/** Call to the IPFS node at which the process of a vault is killed. */
export interface CrashPoint {
  name: string
  write: { method: 'POST' | 'PUT' | 'DELETE'; path: string; content?: string }
  verb: IpfsVerb
  phase: 'before' | 'after'
}

const add = { method: 'POST', path: '/new', content: 'new' } as const
const remove = { method: 'DELETE', path: '/old' } as const
const replace = { method: 'PUT', path: '/old', content: 'new' } as const

/** Crash points between the commit of a write and its pins. Tests of the storage cover crashes within a transaction. */
export const crashPoints: readonly CrashPoint[] = [
  { name: 'POST, before the node adds', write: add, verb: 'add', phase: 'before' },
  { name: 'POST, after the node has added', write: add, verb: 'add', phase: 'after' },
  { name: 'DELETE, before the node unpins', write: remove, verb: 'pin/rm', phase: 'before' },
  { name: 'DELETE, after the node has unpinned', write: remove, verb: 'pin/rm', phase: 'after' },
  { name: 'PUT, before the node adds', write: replace, verb: 'add', phase: 'before' },
  { name: 'PUT, before the node unpins', write: replace, verb: 'pin/rm', phase: 'before' }
]

/** Kills the process of a vault at a crash point, starts one on the same data, and returns the faults. */
export async function crashAt({ write: { method, path, content }, verb, phase }: CrashPoint): Promise<string[]> {
  let kill = (): void => undefined
  const onCall = (called: IpfsVerb, at: 'before' | 'after'): void => {
    if (called === verb && at === phase) kill()
  }
  const vault = await startVaultWithNode({}, { onCall })
  try {
    const server = await vault.start()
    const [user] = await vault.logIn(server.url, 1, 40_000)
    if (user === undefined) throw new Error('no user')
    const send = (method: string, path: string, content?: string) =>
      ask(server.url + path, {
        method,
        headers: { Authorization: `DIDAuth ${user.accessToken}`, 'Content-Type': 'application/json' },
        ...(content !== undefined && { body: JSON.stringify({ content }) })
      })
    await send('POST', '/old', 'old')
    await send('POST', '/other', 'other')
    // On a slow machine, the answers arrive before the node has added the contents.
    await until(() => [...vault.node.pins].length === 2)
    kill = () => server.signal('SIGKILL')
    const answer = await send(method, path, content).catch(() => undefined)
    await server.ended
    kill = () => undefined

    const restarted = await vault.start()
    const faults = answer !== undefined && answer.status >= 300 ? [`answered ${answer.status}`] : []
    const expected = { '/old': ['old'], '/other': ['other'], [path]: content === undefined ? [] : [content] }
    for (const [key, contents] of Object.entries(expected)) {
      const { text } = await ask(`${restarted.url}/${user.did}${key}`)
      if (text !== JSON.stringify(contents)) faults.push(`${key} is ${text}`)
    }
    faults.push(...(await vault.findFaults()))
    const cids = Object.values(expected).flatMap((contents) => contents.map((content) => cidOf(Buffer.from(content))))
    if ([...vault.node.pins].sort().join() !== cids.sort().join()) faults.push('the node has other pins')
    return faults
  } finally {
    await vault.stop()
  }
}
