/** An IPFS node for the demo, in a process of its own: it knows no other node, and prints the URL of its RPC API. */
import { create } from 'ipfs-core'
import { HttpApi } from 'ipfs-http-server'

const ipfs = await create({
  repo: process.argv[2] ?? '',
  offline: true,
  silent: true,
  preload: { enabled: false },
  init: { emptyRepo: true, algorithm: 'Ed25519', profiles: ['test'] },
  config: { Addresses: { Swarm: [], API: '/ip4/127.0.0.1/tcp/0', Gateway: '', Delegates: [] }, Bootstrap: [] }
})
const api = new HttpApi(ipfs)
await api.start()
// TypeScript cannot read its types.
const { _apiServers: listening } = api as unknown as { _apiServers: { info: { uri: string } }[] }
console.log(`IPFS node at ${listening[0]?.info.uri ?? ''}`)
