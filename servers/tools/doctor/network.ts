import { networkInterfaces } from 'node:os'
import { fetchIssuerKeys, isLoopbackHost, within } from 'express-did-auth/server-kit'
import type { ServerEnv } from '../../config/read-env.js'
import { describeReason } from '../../config/startup-error.js'
import { fetchChainId } from '../../observability/health-checks.js'
import { openDatabase, openRedis, createStartError, type RemoteEngine } from '../../content/connections.js'
import { readBoundedText } from '../service-under-test.js'
import { change, note, type Finding, type Findings } from './finding.js'

const TIMEOUT_MILLISECONDS = 3_000

const CHAIN_IDS: Readonly<Record<string, number>> = { rsk: 30, 'rsk:testnet': 31, ethereum: 1, sepolia: 11_155_111 }

/** Public RPC nodes by network, which are checked if no RPC node is configured. */
const DEFAULT_NODES: Readonly<Record<string, string>> = {
  rsk: 'https://public-node.rsk.co',
  'rsk:testnet': 'https://public-node.testnet.rsk.co'
}

/** Targets of the network checks that tests replace. */
export interface NetworkOptions {
  defaultNodes?: Readonly<Record<string, string>>
  /** Addresses of this machine that other machines can reach. */
  addresses?: readonly string[]
  /** `SERVICE_URL` of auth if all servers run in one process. Its keys are not fetched. */
  ownIssuer?: string | undefined
}

/** Checks the configured database and Redis like the start of a server, but changes no table. */
export async function checkEngines(env: ServerEnv): Promise<Findings> {
  const mode = env.DATABASE_MIGRATE ? 'print' : 'check'
  const open = (url: string): Promise<RemoteEngine> =>
    openDatabase(env, url, { mode, timeoutSeconds: TIMEOUT_MILLISECONDS / 1_000 })
  return Promise.all([findFault('database', env.DATABASE_URL, open), findFault('redis', env.REDIS_URL, openRedis)])
}

async function findFault(
  id: 'database' | 'redis',
  url: string | undefined,
  open: (url: string) => Promise<RemoteEngine>
): Promise<Finding | false> {
  if (url === undefined) return false
  const [name, variable] = id === 'redis' ? ['Redis', 'REDIS_URL'] : ['the database', 'DATABASE_URL']
  try {
    const engine = await open(url)
    await engine.check().finally(() => engine.close())
    return false
  } catch (error) {
    return change(id, createStartError(error, `${name} (${variable})`).message, `${variable}=…, or start ${name}`)
  }
}

/** Checks the chains of a server's RPC nodes, the keys of its issuer, and who can reach its IPFS node. */
export async function checkNetwork(
  env: ServerEnv,
  { defaultNodes = DEFAULT_NODES, addresses = findPublicAddresses(), ownIssuer }: NetworkOptions
): Promise<Findings> {
  const { name, RPC_URL: rpcUrl, NETWORK_NAME: network = 'rsk', IPFS_API_URL: ipfsUrl } = env
  const isDefault = rpcUrl === undefined
  const nodes = isDefault ? defaultNodes : { [network]: rpcUrl }
  const checks = Object.entries(name === 'relay' ? {} : nodes).map(async ([network, url]) => {
    // A configured address is not shown, because it often contains an API key.
    const shown = isDefault ? url : 'RPC_URL'
    const chainId = await fetchChainId(url, AbortSignal.timeout(TIMEOUT_MILLISECONDS)).then(Number, describeReason)
    if (typeof chainId === 'number') return checkChain(network, shown, chainId)
    const problem = `${shown} does not answer: ${chainId}`
    if (isDefault) return note('rpc-unavailable', problem, 'RPC_URL=<URL of your own node>')
    return change('rpc-unavailable', problem, 'RPC_URL=…')
  })
  if (name !== 'auth' && ipfsUrl !== undefined) checks.push(checkIpfsNode(ipfsUrl, addresses))
  const { TRUSTED_ISSUER: issuer } = env
  if (name !== 'auth' && issuer !== undefined && issuer !== ownIssuer) checks.push(findIssuerFault(issuer))
  return Promise.all(checks)
}

async function findIssuerFault(issuer: string): Promise<Finding | false> {
  const reason = await within(TIMEOUT_MILLISECONDS, fetchIssuerKeys(issuer)).then(() => undefined, describeReason)
  const remedy =
    'TRUSTED_ISSUER=…, or let this machine resolve its name and trust its certificate (NODE_EXTRA_CA_CERTS)'
  return reason !== undefined && change('issuer', `${issuer} (TRUSTED_ISSUER) returns no keys: ${reason}`, remedy)
}

function checkChain(network: string, shown: string, chainId: number): Finding | false {
  const expected = /^0x/i.test(network) ? Number(network) : CHAIN_IDS[network.toLowerCase()]
  const answer = `${shown} serves chain ${chainId}`
  const unknown = `${answer}, but doctor does not know the chain id of ${network}`
  const wrong = `${answer}, but ${network} is chain ${expected ?? ''}`
  if (expected === undefined) return note('rpc-chain', unknown, `NETWORK_NAME=0x${chainId.toString(16)}`)
  return chainId !== expected && change('rpc-chain', wrong, 'RPC_URL=… or NETWORK_NAME=…')
}

const LOCAL_REMEDY = 'ipfs config Addresses.API /ip4/127.0.0.1/tcp/5001'
/** Checks whether the usual RPC port of an IPFS node answers on the host of a service. */
export const checkIpfsPort = (hostname: string): Promise<Finding | false> =>
  findOpenNode([`http://${hostname}:5001`], LOCAL_REMEDY)

function checkIpfsNode(text: string, addresses: readonly string[]): Promise<Finding | false> {
  const { protocol, host, hostname, port } = new URL(text)
  // The finding must not show the user and password that the URL may contain.
  if (!isLoopbackHost(hostname))
    return findOpenNode([`${protocol}//${host}`], 'put a proxy with a password in front', 'the node of IPFS_API_URL')
  const nodePort = port === '' ? (protocol === 'https:' ? '443' : '80') : port
  const origins = addresses.map((address) => `${protocol}//${address}:${nodePort}`)
  return findOpenNode(origins, LOCAL_REMEDY)
}

async function findOpenNode(origins: readonly string[], remedy: string, shown?: string): Promise<Finding | false> {
  const answers = await Promise.all(origins.map(isIpfsNode))
  const openOrigin = origins[answers.indexOf(true)]
  const name = shown ?? openOrigin?.replace(/^\w+:\/\//, '') ?? ''
  const problem = `Other machines can reach the RPC port of the IPFS node: ${name}`
  return openOrigin !== undefined && change('ipfs-open', problem, remedy)
}

async function isIpfsNode(origin: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MILLISECONDS)
    const response = await fetch(`${origin}/api/v0/version`, { method: 'POST', redirect: 'manual', signal })
    return response.status === 200 && (await readBoundedText(response, origin)).includes('"Version"')
  } catch {
    return false
  }
}

function findPublicAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flat()
    .flatMap((entry) => (entry === undefined || entry.internal || entry.address.startsWith('fe80') ? [] : [entry]))
    .map(({ address, family }) => (family === 'IPv6' ? `[${address}]` : address))
}
