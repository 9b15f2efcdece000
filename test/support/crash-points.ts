import { contentOf } from '../../servers/storage/unixfs-blocks.js'
import type { IpfsVerb } from './ipfs-faults.js'
import { ask } from './server-client.js'
import { vaultBesideNode } from './vault-beside-node.js'

/** A call to the IPFS node at which the process of a vault is killed. */
export interface CrashPoint {
  name: string
  write: { method: 'POST' | 'PUT' | 'DELETE'; path: string; content?: string }
  verb: IpfsVerb
  phase: 'before' | 'after'
}

const add = { method: 'POST', path: '/new', content: 'new' } as const
const remove = { method: 'DELETE', path: '/old' } as const
const replace = { method: 'PUT', path: '/old', content: 'new' } as const

/** Between a write that is committed and its pins; the storage has the crashes within a transaction. */
export const crashPoints: readonly CrashPoint[] = [
  { name: 'POST, before the node adds', write: add, verb: 'add', phase: 'before' },
  { name: 'POST, after the node has added', write: add, verb: 'add', phase: 'after' },
  { name: 'DELETE, before the node unpins', write: remove, verb: 'pin/rm', phase: 'before' },
  { name: 'DELETE, after the node has unpinned', write: remove, verb: 'pin/rm', phase: 'after' },
  { name: 'PUT, before the node adds', write: replace, verb: 'add', phase: 'before' },
  { name: 'PUT, before the node unpins', write: replace, verb: 'pin/rm', phase: 'before' }
]

/** Kills a vault's process at a point, starts again on what it left, and answers what is wrong then. */
export async function crashAt({ write: { method, path, content }, verb, phase }: CrashPoint): Promise<string[]> {
  let kill = (): void => undefined
  const onCall = (called: IpfsVerb, at: 'before' | 'after'): void => {
    if (called === verb && at === phase) kill()
  }
  const vault = await vaultBesideNode({}, { onCall })
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
    kill = () => {
      server.signal('SIGKILL')
    }
    const answered = await send(method, path, content).catch(() => undefined)
    await server.ended
    kill = () => undefined

    const again = await vault.start()
    const faults = answered !== undefined && answered.status >= 300 ? [`answered ${answered.status}`] : []
    const expected = { '/old': ['old'], '/other': ['other'], [path]: content === undefined ? [] : [content] }
    for (const [key, contents] of Object.entries(expected)) {
      const { text } = await ask(`${again.url}/${user.did}${key}`)
      if (text !== JSON.stringify(contents)) faults.push(`${key} is ${text}`)
    }
    faults.push(...(await vault.findFaults()))
    const cids = Object.values(expected).flatMap((contents) => contents.map((one) => contentOf(Buffer.from(one)).cid))
    if ([...vault.node.pins].sort().join() !== cids.sort().join()) faults.push('the node has other pins')
    return faults
  } finally {
    await vault.stop()
  }
}
