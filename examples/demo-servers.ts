import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DemoProcess } from './demo-process.js'

/** Auth, relay and vault as started by `npm start`, and the IPFS node on which they pin content. */
export interface DemoServers {
  relayUrl: string
  vaultUrl: string
  switchNodeOff: () => Promise<void>
  /** Whether the databases, the IPFS repository or the logs of the servers contain a text. */
  contain: (text: string) => boolean
  stop: () => Promise<void>
}

export async function startServers(): Promise<DemoServers> {
  const folder = mkdtempSync(join(tmpdir(), 'did-auth-demo-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const node = new DemoProcess('../test/slow/ipfs-node.mjs', [join(folder, 'ipfs')])
  const [nodeUrl = ''] = await node.printed(/IPFS node at (\S+)/g, 1)
  const servers = new DemoProcess('../servers/cli.ts', ['all'], {
    AUTH_PORT: '0',
    RELAY_PORT: '0',
    VAULT_PORT: '0',
    DATA_DIR: join(folder, 'data'),
    IPFS_API_URL: nodeUrl
  })
  const [, relayUrl = '', vaultUrl = ''] = await servers.printed(/"event":"ready".*?"serviceUrl":"([^"]+)"/g, 3)

  const files = (): string[] =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .map((name) => join(folder, name))
      .filter((path) => statSync(path).isFile())
  return {
    relayUrl,
    vaultUrl,
    switchNodeOff: () => node.stop(),
    contain: (text) => servers.output.includes(text) || files().some((file) => readFileSync(file).includes(text)),
    stop: async () => {
      await servers.stop()
      await node.stop()
    }
  }
}
