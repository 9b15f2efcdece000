import { networkInterfaces } from 'node:os'
import { migrateStore } from 'express-did-auth/stores/postgres'
import type { ServerEnv } from '../../config/read-env.js'
import { reasonOfCause, StartError } from '../../config/startup-error.js'
import { askChainId } from '../../observability/health-checks.js'
import { askRedis, connectDatabase, connectRedis } from '../../storage/connections.js'
import { faultOf } from '../migrate.js'
import { boundedText } from '../service-under-test.js'
import { isLoopbackHost } from 'express-did-auth/server-kit'
import { change, examine, note, type Checks, type Fault, type Finding } from './finding.js'

const TIMEOUT_MILLISECONDS = 3_000
const IPFS_PORT = 5001

const CHAIN_IDS: Readonly<Record<string, number>> = { rsk: 30, 'rsk:testnet': 31, mainnet: 1, sepolia: 11_155_111 }

/** The RPC nodes that are asked where none is configured. */
const DEFAULT_NODES: Readonly<Record<string, string>> = {
  rsk: 'https://public-node.rsk.co',
  'rsk:testnet': 'https://public-node.testnet.rsk.co'
}

/** What the network checks ask, so that a test can name its own. */
export interface NetworkSurroundings {
  defaultNodes?: Readonly<Record<string, string>>
  /** Addresses of this machine that other machines reach. */
  addresses?: readonly string[]
}

/** Asks the database and the Redis that the environment names. All its servers have the same. */
export const engineChecks: Checks<ServerEnv> = {
  database: (env) =>
    faultIn('DATABASE_URL', env.DATABASE_URL, async (url) => {
      const database = await connectDatabase(env, url, { timeoutSeconds: TIMEOUT_MILLISECONDS / 1_000 })
      try {
        await migrateStore(database, { mode: env.DATABASE_MIGRATE ? 'print' : 'check' })
      } catch (error) {
        throw faultOf(error)
      } finally {
        await database.close()
      }
    }),
  redis: (env) =>
    faultIn('REDIS_URL', env.REDIS_URL, async (url) => {
      const quotas = await connectRedis(url)
      await askRedis(quotas).finally(() => quotas.close())
    })
}

async function faultIn(variable: string, url: string | undefined, ask: (url: string) => Promise<void>): Promise<Fault> {
  try {
    if (url !== undefined) await ask(url)
    return undefined
  } catch (error) {
    const sentence =
      error instanceof StartError ? error.message : `Cannot use Redis (${variable}): ${reasonOfCause(error)}`
    return change(true, sentence, `${variable}=…, or start what it names`)
  }
}

/** Asks the RPC nodes of a server for their chains, and looks who can reach its IPFS node. */
export async function checkNetwork(env: ServerEnv, surroundings: NetworkSurroundings): Promise<Finding[]> {
  const { name, RPC_URL: rpcUrl, NETWORK_NAME: network = 'rsk', IPFS_API_URL: ipfsUrl } = env
  const isDefault = rpcUrl === undefined
  const nodes = isDefault ? (surroundings.defaultNodes ?? DEFAULT_NODES) : { [network]: rpcUrl }
  const asked = Object.entries(name === 'relay' ? {} : nodes).map(async ([network, url]) => {
    // The address of a node often carries a key.
    const shown = isDefault ? url : 'RPC_URL'
    const chainId = askChainId(url, AbortSignal.timeout(TIMEOUT_MILLISECONDS)).then(Number, reasonOfCause)
    return examine(nodeChecks, { network, isDefault, shown, chainId: await chainId })
  })
  if (name !== 'auth' && ipfsUrl !== undefined) asked.push(examine(ipfsChecks, portOf(ipfsUrl, surroundings)))
  return (await Promise.all(asked)).flat()
}

interface RpcNode {
  network: string
  isDefault: boolean
  shown: string
  /** Or why it does not answer. */
  chainId: number | string
}

const nodeChecks: Checks<RpcNode> = {
  'rpc-unavailable': ({ chainId, isDefault, shown }) => {
    const [isSilent, what] = [typeof chainId === 'string', `${shown} does not answer: ${chainId}`]
    return isDefault ? note(isSilent, what, 'RPC_URL=<node of your own>') : change(isSilent, what, 'RPC_URL=…')
  },
  'rpc-chain': ({ network, chainId, shown }) => {
    const expected = /^0x/i.test(network) ? Number(network) : CHAIN_IDS[network]
    if (typeof chainId === 'string' || chainId === expected) return undefined
    const what = `${shown} is chain ${chainId}, and ${network} is`
    return expected === undefined
      ? note(true, `${what} a network unknown here`, `NETWORK_NAME=0x${chainId.toString(16)}`)
      : change(true, `${what} chain ${expected}`, 'RPC_URL=… or NETWORK_NAME=…')
  }
}

/** Where a node may answer everybody. */
interface IpfsPort {
  origins: readonly string[]
  /** For people, when it is not the origin that answers. */
  shown?: string
  remedy: string
}

export const ipfsChecks: Checks<IpfsPort> = {
  'ipfs-open': async ({ origins, shown, remedy }) => {
    const states = await Promise.all(origins.map(answersAsIpfs))
    const where = shown ?? origins[states.indexOf(true)]?.replace(/^\w+:\/\//, '') ?? ''
    return change(states.includes(true), `The RPC port of the IPFS node is open to others: ${where}`, remedy)
  }
}

const LOCAL_REMEDY = 'ipfs config Addresses.API /ip4/127.0.0.1/tcp/5001'

/** The usual RPC port of an IPFS node, on the host of a service. */
export const portAt = (hostname: string): IpfsPort => ({
  origins: [`http://${hostname}:${IPFS_PORT}`],
  remedy: LOCAL_REMEDY
})

function portOf(text: string, { addresses = publicAddresses() }: NetworkSurroundings): IpfsPort {
  const url = new URL(text)
  const { protocol, host, port } = url
  const own = port === '' ? (protocol === 'https:' ? '443' : '80') : port
  return isLoopbackHost(url.hostname)
    ? { origins: addresses.map((address) => `${protocol}//${address}:${own}`), remedy: LOCAL_REMEDY }
    : // Without the user and password that it may contain.
      {
        origins: [`${protocol}//${host}`],
        shown: 'the node of IPFS_API_URL',
        remedy: 'a proxy that asks for a password'
      }
}

async function answersAsIpfs(origin: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MILLISECONDS)
    const response = await fetch(`${origin}/api/v0/version`, { method: 'POST', redirect: 'manual', signal })
    return response.status === 200 && (await boundedText(response, origin)).includes('"Version"')
  } catch {
    return false
  }
}

function publicAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flat()
    .flatMap((one) => (one === undefined || one.internal || one.address.startsWith('fe80') ? [] : [one]))
    .map(({ address, family }) => (family === 'IPv6' ? `[${address}]` : address))
}
