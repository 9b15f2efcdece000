import { networkInterfaces } from 'node:os'
import { migrateStore } from 'express-did-auth/stores/postgres'
import type { ServerEnv } from '../../config/read-env.js'
import { reasonOf, StartError } from '../../config/startup-error.js'
import { connectDatabase, openQuotas } from '../../storage/open-engines.js'
import { faultOf } from '../migrate.js'
import { askChainId } from '../../observability/health-checks.js'
import { boundedText } from '../conformance/bounded-text.js'
import type { Plan } from './environment.js'
import { finding, isLoopback, type Finding } from './finding.js'

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
export async function checkEngines({ env }: Plan): Promise<Finding[]> {
  const { DATABASE_URL: database, REDIS_URL: redis } = env
  const asked = [
    ...(database === undefined ? [] : [checkEngine('database', 'DATABASE_URL', () => askDatabase(env, database))]),
    ...(redis === undefined ? [] : [checkEngine('redis', 'REDIS_URL', () => askRedis(redis))])
  ]
  return (await Promise.all(asked)).flat()
}

async function checkEngine(id: string, variable: string, ask: () => Promise<unknown>): Promise<Finding[]> {
  try {
    await ask()
    return []
  } catch (error) {
    const cause = error instanceof Error ? (error.cause ?? error) : error
    const sentence = error instanceof StartError ? error.message : `Cannot use Redis (${variable}): ${reasonOf(cause)}`
    const why = 'No user can log in without it: the answer is 503, or the server does not start.'
    return [finding(id, 'change', sentence, why, `${variable}=…, or start what it names`)]
  }
}

async function askDatabase(env: ServerEnv, url: string): Promise<void> {
  const database = await connectDatabase(env, url, { timeoutSeconds: TIMEOUT_MILLISECONDS / 1_000 })
  try {
    await migrateStore(database, { mode: env.DATABASE_MIGRATE ? 'print' : 'check' })
  } catch (error) {
    throw faultOf(error)
  } finally {
    await database.close()
  }
}

async function askRedis(url: string): Promise<void> {
  const quotas = await openQuotas(url)
  try {
    await quotas.ping()
  } finally {
    await quotas.close()
  }
}

/** Asks the RPC nodes of a server for their chains, and looks who can reach its IPFS node. */
export async function checkNetwork({ env }: Plan, surroundings: NetworkSurroundings = {}): Promise<Finding[]> {
  const { RPC_URL: rpcUrl, NETWORK_NAME: network = 'rsk' } = env
  const nodes =
    rpcUrl === undefined ? Object.entries(surroundings.defaultNodes ?? DEFAULT_NODES) : [[network, rpcUrl] as const]
  const chains = env.name === 'relay' ? [] : nodes.map(([name, url]) => checkChain(name, url, rpcUrl === undefined))
  const ipfs = env.name === 'auth' || env.IPFS_API_URL === undefined ? [] : [checkIpfs(env.IPFS_API_URL, surroundings)]
  return (await Promise.all([...chains, ...ipfs])).flat()
}

async function checkChain(network: string, url: string, isDefault: boolean): Promise<Finding[]> {
  const expected = /^0x/i.test(network) ? Number(network) : CHAIN_IDS[network]
  // The address of a node often carries a key.
  const shown = isDefault ? url : 'RPC_URL'
  try {
    const chainId = Number(await askChainId(url, AbortSignal.timeout(TIMEOUT_MILLISECONDS)))
    if (chainId === expected) return []
    const why = 'Issuers of credentials would be looked up on another chain than their DIDs name.'
    const what = `${shown} is chain ${chainId}, and ${network} is ${expected === undefined ? 'a network unknown here' : `chain ${expected}`}`
    const change = expected === undefined ? `NETWORK_NAME=0x${chainId.toString(16)}` : 'RPC_URL=… or NETWORK_NAME=…'
    return [finding('rpc-chain', expected === undefined ? 'note' : 'change', what, why, change)]
  } catch (error) {
    const reason = reasonOf(error instanceof Error ? (error.cause ?? error) : error)
    const why = isDefault
      ? 'Only issuers of credentials that no address proves are looked up there. Logins do not need it.'
      : 'Credentials of issuers on its network are answered with 503. Logins do not need it.'
    const what = `${shown} does not answer: ${reason}`
    return [
      finding(
        'rpc-unavailable',
        isDefault ? 'note' : 'change',
        what,
        why,
        isDefault ? 'RPC_URL=<node of your own>' : 'RPC_URL=…'
      )
    ]
  }
}

async function checkIpfs(text: string, { addresses = publicAddresses() }: NetworkSurroundings): Promise<Finding[]> {
  const url = new URL(text)
  if (!isLoopback(url)) {
    // Without the user and password that may stand in it.
    const isOpen = await answersAsIpfs(`${url.protocol}//${url.host}`)
    return isOpen ? [openIpfs('the node of IPFS_API_URL', 'a proxy that asks for a password')] : []
  }
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port
  const open = await Promise.all(addresses.map((address) => answersAsIpfs(`${url.protocol}//${address}:${port}`)))
  return open.includes(true)
    ? [openIpfs(`${addresses[open.indexOf(true)] ?? ''}:${port}`, 'ipfs config Addresses.API /ip4/127.0.0.1/tcp/5001')]
    : []
}

/** Whether the RPC port of an IPFS node of a host answers everybody. */
export async function checkIpfsPort(hostname: string, port = IPFS_PORT): Promise<Finding[]> {
  const isOpen = await answersAsIpfs(`http://${hostname}:${port}`)
  return isOpen ? [openIpfs(`${hostname}:${port}`, 'ipfs config Addresses.API /ip4/127.0.0.1/tcp/5001')] : []
}

function openIpfs(where: string, change: string): Finding {
  const why = 'Every client that reaches it controls the node: reads its keys, and removes its pins.'
  return finding('ipfs-open', 'change', `The RPC port of the IPFS node is open to others: ${where}`, why, change)
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
