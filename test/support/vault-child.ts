/**
 * A vault in a process of its own that is meant to be killed: carries out the writes of its arguments, one after the
 * other, and prints a line for each that is acknowledged. `node vault-child.ts <file> <node> <verb>:<key>:<content>…`
 */
import { ipfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'
import { vaultInside } from './vault-parts.js'

const [, , file = '', url = '', ...writes] = process.argv
const node = ipfsHttpNode(url)
const { vault, outbox, close } = vaultInside(file, node)
outbox?.start()

for (const write of writes) {
  const [verb, key = '', text = ''] = write.split(':')
  const bytes = Buffer.from(text)
  if (verb === 'add') await vault.add('did:ethr:rsk:0xa', key, bytes)
  if (verb === 'put') await vault.replaceAll('did:ethr:rsk:0xa', key, bytes)
  if (verb === 'remove') await vault.remove('did:ethr:rsk:0xa', key)
  console.log(write)
}
await close()
node.close()
