import type { ServerEnv } from '../config/read-env.js'
import type { ServerApp, ShellParts } from '../http/create-app.js'
import type { Running } from '../http/listen.js'
import type { IpfsNode } from '../ipfs/ipfs-node.js'
import { ipfsHttpNode } from '../ipfs/ipfs-rpc-client.js'
import type { OpenContentStore } from '../storage/sqlite/open-content-store.js'
import { startServer, type Surroundings } from './run-servers.js'

/** What relay and vault are built of. */
export interface ContentServerParts extends ShellParts {
  contents: OpenContentStore['store']
  /** Where bodies lie while they arrive. */
  spool: OpenContentStore['spool']
  /** Undefined: none is configured. */
  node: IpfsNode | undefined
}

/**
 * Starts a server that stores content, and pins it where there is an IPFS node.
 *
 * @throws StartError
 */
export async function startContentServer(
  env: ServerEnv,
  surroundings: Surroundings,
  build: (parts: ContentServerParts) => ServerApp
): Promise<Running> {
  const { store: contents, spool } = await surroundings.engines.openContents(env)
  const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
  const watchPins = (): void => {
    surroundings.metrics?.watch('did_auth_pins_open', async () => [
      { labels: { server: env.name }, value: await contents.countOpen() }
    ])
  }
  try {
    return await startServer(env, surroundings, {
      contents,
      build: (parts) => {
        const app = build({ ...parts, contents, spool, node })
        if (node !== undefined) watchPins()
        const close = async (): Promise<void> => {
          const closed = app.close()
          // Calls under way are made again after the next start.
          node?.close()
          await closed
          await contents.close()
        }
        return { ...app, close }
      }
    })
  } catch (error) {
    await contents.close()
    throw error
  }
}
