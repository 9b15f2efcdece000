/**
 * A real IPFS node (js-ipfs) without peers: `node ipfs-node.mjs [<repository>]`. It prints the URL of its RPC API, and
 * sends the URL to its parent process, with which it ends. Without an argument, it uses a temporary repository.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create } from 'ipfs-core'
import { HttpApi } from 'ipfs-http-server'

const repo = process.argv[2] ?? mkdtempSync(join(tmpdir(), 'did-auth-ipfs-'))
process.on('disconnect', () => process.exit())
process.on('exit', () => {
  // The first attempt may fail while other threads of the node still write.
  if (process.argv[2] === undefined) rmSync(repo, { recursive: true, force: true, maxRetries: 3 })
})

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
const url = api._apiServers[0]?.info.uri ?? ''
console.log(`IPFS node at ${url}`)
process.send?.(url)
