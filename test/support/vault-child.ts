/**
 * A vault in a process of its own that is meant to be killed: carries out the writes of its arguments, one after the
 * other, and prints a line for each that is acknowledged. `node vault-child.ts <file> <node> <verb>:<key>:<content>…`
 */
import { ipfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'
import { drained, vaultInside } from './vault-parts.js'

const [, , file = '', url = '', ...writes] = process.argv
const node = ipfsHttpNode(url)
const inside = vaultInside(file, node)
const { vault, outbox, close } = inside
outbox?.start()

for (const write of writes) {
  const [verb, key = '', text = ''] = write.split(':')
  const bytes = Buffer.from(text)
  if (verb === 'add') await vault.add('did:ethr:rsk:0xa', key, bytes)
  if (verb === 'put') await vault.replaceAll('did:ethr:rsk:0xa', key, bytes)
  if (verb === 'remove') await vault.remove('did:ethr:rsk:0xa', key)
  console.log(write)
}
// On a slow machine a write is answered before its pins, and it is during those that this process is to be killed.
await drained(inside, 20_000)
await close()
node.close()
