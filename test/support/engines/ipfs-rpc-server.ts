import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { request } from 'node:http'

const childFile = fileURLToPath(new URL('../../slow/ipfs-node.mjs', import.meta.url))

/** A real IPFS node (js-ipfs) without peers, in a separate process that ends with this one. */
export interface IpfsRpcServer {
  /** URL of its RPC API, without `/api/v0`. */
  url: string
  /** Returns the CIDs of its recursive pins, sorted. */
  pins(): Promise<string[]>
  /** Ends the process, and removes the repository. */
  stop(): Promise<void>
}

/** Starts a node with an empty repository, in about 2 s. */
export async function startIpfsRpcServer(): Promise<IpfsRpcServer> {
  const child = fork(childFile, {
    execArgv: [],
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc']
  })
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const url = await new Promise<string>((resolve, reject) => {
    child.once('message', resolve)
    void exit.then((code) =>
      reject(new Error(`the IPFS node ended with ${String(code)}; npm run test:slow installs it`))
    )
  })
  return {
    url,
    pins: () => listPins(url),
    async stop() {
      child.disconnect()
      await exit
    }
  }
}

/** Lists the recursive pins without the client under test. */
async function listPins(url: string): Promise<string[]> {
  const text = await new Promise<string>((resolve, reject) => {
    const req = request(`${url}/api/v0/pin/ls?type=recursive&cid-base=base32`, { method: 'POST' }, (res) => {
      let text = ''
      res.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      res.once('end', () => resolve(text))
    })
    req.once('error', reject).end()
  })
  return Object.keys((JSON.parse(text) as { Keys: object }).Keys).sort()
}
