/** A process that is an IPFS node. `fork` it by `startIpfsRpcServer`; it tells its URL, and ends when its parent is gone. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create } from 'ipfs-core'
import { HttpApi } from 'ipfs-http-server'

const repo = mkdtempSync(join(tmpdir(), 'did-auth-ipfs-'))
process.on('disconnect', () => process.exit())
// What the node still writes in other threads makes the first try fail at times.
process.on('exit', () => {
  rmSync(repo, { recursive: true, force: true, maxRetries: 3 })
})
void start()

async function start(): Promise<void> {
  const ipfs = await create({
    repo,
    offline: true,
    silent: true,
    preload: { enabled: false },
    init: { emptyRepo: true, algorithm: 'Ed25519', profiles: ['test'] },
    config: { Addresses: { Swarm: [], API: '/ip4/127.0.0.1/tcp/0', Gateway: '', Delegates: [] }, Bootstrap: [] }
  })
  const api = new HttpApi(ipfs)
  await api.start()
  process.send?.(api._apiServers[0]?.info.uri ?? '')
}
